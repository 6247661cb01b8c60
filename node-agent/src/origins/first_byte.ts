import { constants } from 'node:fs';
import { open, readlink, realpath } from 'node:fs/promises';
import { HearthError } from '@hearth/common';
import type { Location } from '@hearth/engine';
import type { HttpClient, HttpResponse } from './http_client.ts';
import { pageError, refusalOf } from './http_error.ts';
import { strongEtag } from './http_probe.ts';
import type { LocatableEntry } from './origin.ts';
import { printableUrl } from './printable_url.ts';

/**
 * Reads one byte from the location and with the condition that the engine will use, and compares the response with the
 * entry as the engine does. Throws `OriginChanged` when they differ; otherwise like `statusError` or the HTTP client,
 * with the file named.
 */
export async function readFirstByte(
  client: HttpClient,
  location: Location,
  { validator, size }: Pick<LocatableEntry, 'validator' | 'size'>,
  signal: AbortSignal,
): Promise<void> {
  const url = new URL(location.url ?? '');
  const { authorization, ...others } = location.headers ?? {};
  const response = await client.request({
    method: 'GET',
    url,
    headers: { ...others, ...conditionOf(validator), range: 'bytes=0-0' },
    ...(authorization === undefined ? {} : { authorization }),
    redirects: 'follow',
    bodyLimit: 1,
    passing: (answer) => pageError(answer, size),
    signal,
  });
  const difference = differenceOf(response, validator, size);
  if (difference !== undefined) {
    throw new HearthError(
      'OriginChanged',
      `${printableUrl(response.url)}: ${difference}; list it again when nothing writes to it, or correct its server`,
    );
  }
  if (response.status !== 200 && response.status !== 206) throw refusalOf(response);
}

/** Like the engine's `conditionHeader`. */
function conditionOf(validator: string): Record<string, string> {
  if (validator.startsWith('etag:"')) return { 'if-match': validator.slice('etag:'.length) };
  if (validator.startsWith('modified:')) return { 'if-unmodified-since': validator.slice('modified:'.length) };
  return {};
}

/** The difference between the response and the file's listing, if any. */
function differenceOf({ status, headers }: HttpResponse, validator: string, size?: bigint): string | undefined {
  if (status === 412) return 'the server says that the file is not the listed one (412)';
  if (status !== 200 && status !== 206) return undefined;
  const [, kind = '', named] = /^(etag|compared-etag|modified):(.*)$/.exec(validator) ?? [];
  if (kind.endsWith('etag') && strongEtag(headers) !== named) return 'its ETag is not the listed one';
  if (kind === 'modified' && headers['last-modified'] !== named) return 'its Last-Modified is not the listed one';
  const total = status === 206 ? /\/(\d+)$/.exec(headers['content-range'] ?? '')?.[1] : headers['content-length'];
  const encoded = !['', 'identity'].includes(headers['content-encoding'] ?? '');
  if (total === undefined || size === undefined || encoded || BigInt(total) === size) return undefined;
  return `it has ${total} bytes instead of ${size}`;
}

/** Like `readFirstByte`, for a local file. Refuses symbolic links at the path or below the location's directory. */
export async function readFirstByteOfFile({ path = '', below = '' }: Location): Promise<void> {
  let file: Awaited<ReturnType<typeof open>>;
  let real: string;
  try {
    real = `${await realpath(below)}${path.slice(below.length)}`;
    // O_NONBLOCK avoids waiting for a writer if the file became a pipe.
    file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException;
    const denied = code === 'EACCES' || code === 'EPERM';
    throw new HearthError(
      denied ? 'PermissionDenied' : 'OriginChanged',
      `${path} is listed but cannot be opened (${code}); let the agent read it, or list it again when nothing writes to it`,
    );
  }
  try {
    // The kernel knows the path of the open file, even if a link replaced a folder meanwhile.
    if (!(await readlink(`/proc/self/fd/${file.fd}`, 'buffer')).equals(Buffer.from(real))) {
      throw new HearthError(
        'OriginChanged',
        `${path} is not where it was listed; list it again when nothing writes to it`,
      );
    }
    if (!(await file.stat()).isFile()) {
      throw new HearthError('OriginChanged', `${path} is no file any more; list it again when nothing writes to it`);
    }
    const { bytesRead } = await file.read(Buffer.alloc(1), 0, 1, 0);
    if (bytesRead === 1) return;
  } finally {
    await file.close();
  }
  throw new HearthError('OriginChanged', `${path} became empty while it was listed; list it again`);
}
