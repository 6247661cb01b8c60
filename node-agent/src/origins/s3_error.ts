import { HearthError } from '@hearth/common';
import { connectionError } from './http_error.ts';

/** The failed action, for the message. */
export interface S3Context {
  bucket: string;
  /** Host and port of the endpoint. */
  host: string;
  /** Proxy for the endpoint; '' for none. */
  proxy: string;
  region: string;
  /** True when requests are unsigned for lack of credentials. */
  anonymous: boolean;
  /** True when the machine's own identity is permitted. */
  nodeIdentity: boolean;
}

interface ServiceError {
  name: string;
  $metadata?: { httpStatusCode?: number };
  $response?: { headers?: Record<string, string> };
}

const credentialSteps: Record<string, string> = {
  InvalidAccessKeyId:
    'the access key is not known there; check the Secret, AWS_ACCESS_KEY_ID or the profile, and the endpoint',
  XAdminUserNotFound: 'the access key is not known there; check the Secret, AWS_ACCESS_KEY_ID or the profile', // Versity's gateway
  SignatureDoesNotMatch:
    'the secret key does not belong to the access key; check the Secret, AWS_SECRET_ACCESS_KEY or the profile',
  ExpiredToken: 'the session token has expired; get new credentials',
  InvalidToken: 'the session token is not valid; get new credentials, all three parts together',
  TokenRefreshRequired: 'the session token must be refreshed; get new credentials',
};

/** Converts anything thrown by the S3 client (error codes of the S3 API reference) to its meaning for the user. */
export function s3Error(thrown: unknown, context: S3Context): HearthError {
  if (thrown instanceof HearthError) return thrown;
  // The SDK wraps errors that end the reading of a response.
  const { cause } = thrown as { cause?: unknown };
  if (cause instanceof HearthError) return cause;
  const { bucket, host, proxy, region, anonymous, nodeIdentity } = context;
  const error = thrown as ServiceError;
  const status = error.$metadata?.httpStatusCode;
  if (error.name === 'AbortError')
    return new HearthError('Cancelled', `the requests to bucket ${bucket} were cancelled`);
  if (error.name === 'CredentialsProviderError') {
    return new HearthError(
      'Unauthenticated',
      'the AWS credentials that are configured cannot be obtained; check the profile, its single sign-on session or its process',
    );
  }
  if (error.name === 'RequestTimeTooSkewed') {
    return new HearthError(
      'Unavailable',
      `${host} refuses the time of the request (${error.name}): its clock and that of this machine differ by more than 15 minutes; set them (NTP)`,
    );
  }
  const step = credentialSteps[error.name];
  if (step !== undefined)
    return new HearthError('Unauthenticated', `${host} does not accept the credentials (${error.name}): ${step}`);
  // Failures below HTTP have no status, or that of an unreadable response.
  if (status === undefined) return connectionError(thrown, host, proxy).error;
  if (error.name === 'NoSuchBucket') {
    return new HearthError('NotFound', `there is no bucket ${bucket} at ${host}; check its name and the endpoint`);
  }
  if (error.name === 'InvalidBucketName')
    return new HearthError('InvalidArgument', `${host} does not accept the bucket name ${bucket}; check it`);
  if (
    ['PermanentRedirect', 'AuthorizationHeaderMalformed', 'IllegalLocationConstraintException'].includes(error.name) ||
    status === 301
  ) {
    const actual = error.$response?.headers?.['x-amz-bucket-region'];
    const where = actual === undefined ? 'another region' : `region ${actual}`;
    const add = actual === undefined ? 'its region' : `?region=${actual}`;
    return new HearthError(
      'InvalidArgument',
      `the bucket ${bucket} is in ${where}, not in ${region}; add ${add} to the source or set AWS_REGION`,
    );
  }
  if (status === 401 || status === 403) {
    if (anonymous) {
      const step = nodeIdentity
        ? 'there are no AWS credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile'
        : "the dataset has no credentials of its own and may not use the nodes'; give it a secretRef, or ask the " +
          'administrator to allow its namespace in origins.nodeIdentity';
      return new HearthError(
        'Unauthenticated',
        `the bucket ${bucket} at ${host} does not allow anonymous reading, and ${step}`,
      );
    }
    return new HearthError(
      'PermissionDenied',
      `the credentials may not list or read the bucket ${bucket} at ${host} (${error.name}); allow s3:ListBucket and s3:GetObject`,
    );
  }
  if (status === 429 || status >= 500) {
    return new HearthError(
      'Unavailable',
      `${host} is overloaded or failing (${status} ${error.name}); try again later`,
    );
  }
  return new HearthError(
    'ProtocolError',
    `${host} does not answer like an S3 server (${status} ${error.name}); check the endpoint`,
  );
}
