import { HearthError } from '@hearth/common';
import type { Credentials, Source } from '@hearth/common/generated/hearth/v1/control.ts';
import { type OriginOptions, placeKey } from '../origins/index.ts';

/** True for empty credentials, which make the agent forget a dataset's credentials. */
export function isEmpty(credentials: Credentials): boolean {
  return hasNoneOfFirst(credentials) && (credentials.mirrors?.mirrors ?? []).length === 0;
}

function hasNoneOfFirst({ token, accessKeyId, secretAccessKey, sessionToken }: Credentials): boolean {
  return [token, accessKeyId, secretAccessKey, sessionToken].every((value) => value === '');
}

/** Credentials of a dataset's first source only; undefined when it has none. */
export function ofFirst(own: Credentials | undefined): Credentials | undefined {
  if (own === undefined || hasNoneOfFirst(own)) return undefined;
  return own.mirrors === undefined ? own : { ...own, mirrors: undefined };
}

/**
 * Credentials given for exactly this mirror; undefined when it has none. No other credentials are ever sent there.
 * `needed`: the mirror has credentials; throws `Unauthenticated` while they are missing, because the node's identity
 * must not be used instead.
 */
export function ofMirror(own: Credentials | undefined, mirror: Source, needed: boolean): Credentials | undefined {
  const place = placeKey(mirror);
  const given = own?.mirrors?.mirrors.find((one) => one.mirror !== undefined && placeKey(one.mirror) === place);
  const credentials = ofFirst(given?.credentials);
  if (needed && credentials === undefined) {
    throw new HearthError(
      'Unauthenticated',
      "the agent has no credentials of the mirror: they have not arrived yet, or the mirror's Secret cannot be used (condition CredentialsReady of the Dataset)",
    );
  }
  return credentials;
}

/**
 * The form in which an origin of the source uses a dataset's credentials. Throws `InvalidArgument` for credentials of
 * another kind.
 */
export function originCredentials(source: Source, own: Credentials): Pick<OriginOptions, 'token' | 'credentials'> {
  const { token, accessKeyId, secretAccessKey, sessionToken } = own;
  switch (source.kind?.$case) {
    case 's3':
      if (accessKeyId === '' || secretAccessKey === '') {
        throw new HearthError(
          'InvalidArgument',
          'an S3 source needs an access key id and a secret access key; give both',
        );
      }
      return { credentials: { accessKeyId, secretAccessKey, ...(sessionToken === '' ? {} : { sessionToken }) } };
    case 'http':
    case 'hub':
      if (token === '') throw new HearthError('InvalidArgument', 'an http or hub source needs a token; give one');
      return { token };
    default:
      throw new HearthError('InvalidArgument', 'this kind of source takes no credentials; omit them');
  }
}
