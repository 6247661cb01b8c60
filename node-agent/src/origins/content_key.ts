import { createHash } from 'node:crypto';

/**
 * Content keys: equal keys promise equal bytes, so each is a SHA-256 over what identifies bytes for good.
 *
 * Preimage, for ever: the fields of one case joined and ended by a NUL byte each, UTF-8, integers in decimal:
 *
 *   hearth-key-1  digest     SHA-256 of the bytes (64 lower-case hexadecimal digits)  size
 *   hearth-key-1  s3         object URL  "version"  version id
 *   hearth-key-1  s3         object URL  "etag"     ETag with its quotes
 *   hearth-key-1  http       URL  "etag"      strong ETag with its quotes
 *   hearth-key-1  http       URL  "modified"  Last-Modified as sent  size
 *   hearth-key-1  hub        URL with the commit  git object id
 *   hearth-key-1  directory  absolute path  mtime ns  ctime ns  size
 *
 * The digest case names no place: equal bytes have one key whichever origin they come from. No field can
 * hold a NUL (URLs, header values and paths cannot), so no two lists of fields have one preimage.
 */
function keyOf(...fields: string[]): string {
  const hash = createHash('sha256');
  hash.update(`hearth-key-1\0${fields.join('\0')}\0`);
  return hash.digest('hex');
}

/** `sha256`: 64 hexadecimal digits of either case. */
export function digestKey(sha256: string, size: bigint): string {
  return keyOf('digest', sha256.toLowerCase(), String(size));
}

/** `url`: endpoint/bucket/key, whichever style requests have. */
export function s3VersionKey(url: string, versionId: string): string {
  return keyOf('s3', url, 'version', versionId);
}

export function s3EtagKey(url: string, etag: string): string {
  return keyOf('s3', url, 'etag', etag);
}

export function httpEtagKey(url: string, etag: string): string {
  return keyOf('http', url, 'etag', etag);
}

export function httpModifiedKey(url: string, lastModified: string, size: bigint): string {
  return keyOf('http', url, 'modified', lastModified, String(size));
}

export function hubKey(url: string, oid: string): string {
  return keyOf('hub', url, oid);
}

export function directoryKey(path: string, mtimeNs: bigint, ctimeNs: bigint, size: bigint): string {
  return keyOf('directory', path, String(mtimeNs), String(ctimeNs), String(size));
}
