import { createHash } from 'node:crypto';

/**
 * Content keys: equal keys promise equal bytes. A key is a SHA-256 over fields that identify the bytes permanently.
 *
 * The preimage must never change: the fields of one row, each followed by a NUL byte, UTF-8, integers in decimal:
 *
 *   hearth-key-1  digest     place  SHA-256 of the bytes (64 lower-case hexadecimal digits)  size
 *   hearth-key-1  s3         object URL  "etag"     ETag with its quotes
 *   hearth-key-1  s3         object URL  "modified"  Last-Modified as sent  size
 *   hearth-key-1  http       URL  "etag"      strong ETag with its quotes
 *   hearth-key-1  http       URL  "modified"  Last-Modified as sent  size
 *   hearth-key-1  hub        URL with the commit  git object id
 *   hearth-key-1  directory  absolute path  mtime ns  ctime ns  size
 *   hearth-key-1  mirrored   one of these keys  each mirror's place, JSON (mirrors.ts, placeKey), sorted
 *
 * A digest is a claim about unread bytes, and the registrant of a dataset may choose its authority. Without the place,
 * a claim would suffice to get bytes that another dataset fetched, or to plant wrong bytes for another dataset. The
 * place is the digest's authority: a hub's endpoint (all its repositories share bytes), the URL whose digest the source
 * gives, "self-test", or "hub-reference" for files that agents derive from a commit. No field can contain a NUL (URLs,
 * header values and paths cannot), so preimages are unambiguous.
 */
function keyOf(...fields: string[]): string {
  const hash = createHash('sha256');
  hash.update(`hearth-key-1\0${fields.join('\0')}\0`);
  return hash.digest('hex');
}

/** `place`: authority for the digest. `sha256`: 64 hexadecimal digits in either case. */
export function digestKey(place: string, sha256: string, size: bigint): string {
  return keyOf('digest', place, sha256.toLowerCase(), String(size));
}

/** `url`: endpoint/bucket/key, for both request styles. */
export function s3EtagKey(url: string, etag: string): string {
  return keyOf('s3', url, 'etag', etag);
}

export function s3DatedKey(url: string, lastModified: string, size: bigint): string {
  return keyOf('s3', url, 'modified', lastModified, String(size));
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

/** `places`: JSON of the mirrors' places. Mirrors may supply the bytes, so they are part of the key. */
export function mirroredKey(key: string, places: readonly string[]): string {
  return keyOf('mirrored', key, ...places);
}
