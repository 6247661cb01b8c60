import { HearthError } from '@hearth/common';
import { printableUrl } from './printable_url.ts';

/** Statuses after which the same request may succeed. */
export function statusMayPass(status: number): boolean {
  return [408, 429, 500, 502, 503, 504].includes(status);
}

/** What a status that is not a success means, with the next step. */
export function statusError(status: number, url: URL): HearthError {
  const where = printableUrl(url);
  if (status === 401) {
    return new HearthError(
      'Unauthenticated',
      `${where} asks for credentials (401); give the dataset a token that this server accepts`,
    );
  }
  if (status === 403) {
    return new HearthError(
      'PermissionDenied',
      `${where} refuses access (403); check the token's rights, or that a presigned URL has not expired`,
    );
  }
  if (status === 404 || status === 410) {
    return new HearthError('NotFound', `${where} does not exist (${status}); check the URL for a misspelling`);
  }
  if (status === 429) {
    return new HearthError('Unavailable', `${where} limits our requests (429); try again later or give a token`);
  }
  if (statusMayPass(status)) {
    return new HearthError('Unavailable', `${where} answered ${status}; try again later or look at the server's log`);
  }
  return new HearthError(
    'ProtocolError',
    `${where} answered ${status}, which is not expected of a file server; check the URL`,
  );
}

const untrusted = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'CERT_HAS_EXPIRED',
  'CERT_NOT_YET_VALID',
  'CERT_UNTRUSTED',
  'CERT_REVOKED',
  'CERT_SIGNATURE_FAILURE',
  'INVALID_CA',
  'ERR_TLS_CERT_ALTNAME_INVALID',
]);

/** A failure below HTTP, and whether the same request may succeed later. `host`: host and port. */
export function connectionError(thrown: unknown, host: string): { error: HearthError; mayPass: boolean } {
  if (thrown instanceof HearthError) return { error: thrown, mayPass: false };
  const code = codeOf(thrown);
  if (untrusted.has(code)) {
    const step =
      code === 'CERT_HAS_EXPIRED' ? 'renew it' : "add its authority to the agent's file of certificate authorities";
    const error = new HearthError('Unauthenticated', `the certificate of ${host} is not trusted (${code}); ${step}`);
    return { error, mayPass: false };
  }
  if (code === 'ENOTFOUND') {
    const error = new HearthError(
      'Unavailable',
      `the host ${host} has no address; check its name and this machine's DNS`,
    );
    return { error, mayPass: false };
  }
  if (code === 'EPROTO' || code.startsWith('ERR_SSL') || code.startsWith('HPE_')) {
    const error = new HearthError(
      'ProtocolError',
      `${host} does not speak the protocol of the URL (${code}); check "http" or "https" and the port`,
    );
    return { error, mayPass: false };
  }
  const error = new HearthError(
    'Unavailable',
    `${host} cannot be reached (${code}); check that it runs and that a firewall lets us through`,
  );
  return { error, mayPass: true };
}

function codeOf(thrown: unknown): string {
  if (thrown !== null && typeof thrown === 'object' && 'code' in thrown && typeof thrown.code === 'string')
    return thrown.code;
  return thrown instanceof Error ? thrown.name : 'unknown error';
}
