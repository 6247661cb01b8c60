import type { IncomingHttpHeaders } from 'node:http';
import { HearthError } from '@hearth/common';
import { printableUrl } from './printable_url.ts';
import { refusalWords } from './refusal_words.ts';

/**
 * Overloaded servers and captive networks answer 200 with an HTML page, which says nothing about the file. `size`: the
 * file's size, undefined if unknown.
 */
export function pageError(
  { status, url, headers }: { status: number; url: URL; headers: IncomingHttpHeaders },
  size: bigint | undefined,
): HearthError | undefined {
  const { 'content-type': type = '', 'content-length': length } = headers;
  if (status !== 200 || !/^text\/html\b/i.test(type) || /\.html?$/i.test(url.pathname)) return undefined;
  if (size !== undefined && length !== undefined && /^\d+$/.test(length) && BigInt(length) === size) return undefined;
  return new HearthError(
    'Unavailable',
    `${printableUrl(url)} answered with a page (${type}) instead of the file; the server or a network before it is overloaded or asks to sign in: try again later`,
  );
}

/** Code of the S3 API for a signature whose time is more than 15 minutes off. */
const skewed = 'RequestTimeTooSkewed';

/** True for transient statuses. */
export function isTransientStatus(status: number): boolean {
  return [408, 429, 500, 502, 503, 504].includes(status);
}

/** The error of an unsuccessful response, with the server's message and the next step. */
export function refusalOf({ status, url, body }: { status: number; url: URL; body: Buffer }): HearthError {
  return statusError(status, url, refusalWords(body));
}

/** Like `refusalOf`; `words`: result of `refusalWords`. */
export function statusError(status: number, url: URL, words = ''): HearthError {
  const where = printableUrl(url);
  const said = words === '' ? `${status}` : `${status}: "${words}"`;
  if (status === 401) {
    return new HearthError(
      'Unauthenticated',
      `${where} asks for credentials (${said}); give the dataset a token that this server accepts`,
    );
  }
  if (status === 403 && words.startsWith(skewed)) {
    return new HearthError(
      'Unavailable',
      `${where} refuses the time of the signature (${said}): the clocks of the server and of this machine differ by more than 15 minutes; set them (NTP)`,
    );
  }
  if (status === 403) {
    return new HearthError(
      'PermissionDenied',
      `${where} refuses access (${said}); check the token's rights, or that a presigned URL has not expired`,
    );
  }
  if (status === 407) {
    return new HearthError(
      'Unauthenticated',
      `the proxy before ${where} asks for credentials (${said}); give the agents a user and password in HTTP_PROXY`,
    );
  }
  if (status === 404 || status === 410) {
    return new HearthError('NotFound', `${where} does not exist (${said}); check the URL for a misspelling`);
  }
  if (status === 429) {
    return new HearthError(
      'Unavailable',
      `${where} limits the agent's requests (${said}); try again later or give a token`,
    );
  }
  if (isTransientStatus(status)) {
    return new HearthError('Unavailable', `${where} answered ${said}; try again later or look at the server's log`);
  }
  return new HearthError(
    'ProtocolError',
    `${where} answered ${said}, which is unexpected of a file server; check the URL`,
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

/**
 * Converts a failure below HTTP, and tells whether the request may succeed later. `host`: host and port; `proxy`: ''
 * for none.
 */
export function connectionError(thrown: unknown, host: string, proxy = ''): { error: HearthError; mayPass: boolean } {
  if (thrown instanceof HearthError) return { error: thrown, mayPass: false };
  const code = codeOf(thrown);
  if (proxy !== '' && code === 'ERR_PROXY_TUNNEL') return proxyRefusal(thrown, host, proxy);
  if (proxy !== '' && (code === 'ENOTFOUND' || code === 'ECONNREFUSED')) {
    const error = new HearthError(
      'Unavailable',
      `the agent cannot reach the proxy ${proxy} for ${host} (${code}); check HTTP_PROXY and HTTPS_PROXY of the agents`,
    );
    return { error, mayPass: code === 'ECONNREFUSED' };
  }
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
    `${host} cannot be reached (${code}); check that the server runs and that firewalls let the agent through`,
  );
  return { error, mayPass: true };
}

/** Like the engine's `proxyRefusal`. */
function proxyRefusal(thrown: unknown, host: string, proxy: string): { error: HearthError; mayPass: boolean } {
  const { statusCode: status = 502 } = thrown as { statusCode?: number };
  const refused = `the proxy ${proxy} did not connect to ${host} (it answered ${status})`;
  if (status === 407) {
    const step = 'give the agents a user and password in HTTPS_PROXY';
    return { error: new HearthError('Unauthenticated', `${refused}; ${step}`), mayPass: false };
  }
  if (isTransientStatus(status)) {
    const step = 'check the proxy, or list the host in NO_PROXY of the agents';
    return { error: new HearthError('Unavailable', `${refused}; ${step}`), mayPass: true };
  }
  const step = 'allow the host at the proxy, or list it in NO_PROXY of the agents';
  return { error: new HearthError('PermissionDenied', `${refused}; ${step}`), mayPass: false };
}

function codeOf(thrown: unknown): string {
  if (thrown !== null && typeof thrown === 'object' && 'code' in thrown && typeof thrown.code === 'string')
    return thrown.code;
  return thrown instanceof Error ? thrown.name : 'unknown error';
}
