import type { IncomingHttpHeaders } from 'node:http';
import { chunkBytes, HearthError } from '@hearth/common';
import type { HttpClient, HttpResponse } from './http_client.ts';
import { refusalOf, statusError } from './http_error.ts';
import { printableUrl } from './printable_url.ts';

/** A server's answer about a file of which it sends one byte. */
export interface HttpFileFacts {
  size: bigint;
  /** Strong ETag, with quotes. */
  etag?: string;
  /** True when the server sends the ETag with quotes. */
  isQuoted: boolean;
  /** Last-Modified as sent. */
  lastModified?: string;
  /** URL of the response, after redirects. */
  servedBy: URL;
}

/**
 * Requests the first byte, because HEAD would also succeed for files whose bytes the reader may not have. A server that
 * ignores ranges may serve only files of one chunk, which the engine reads whole; else throws `Unsupported`. Otherwise
 * throws like `statusError` and `HttpClient.request`.
 */
export async function probeFile(
  client: HttpClient,
  url: URL,
  authorization: string | undefined,
  signal: AbortSignal,
): Promise<HttpFileFacts> {
  const facts = await probeIfMatch(client, url, { authorization }, signal);
  if (facts === undefined) throw statusError(412, url);
  return facts;
}

/** Like `probeFile`, with If-Match when `ifMatch` is given; undefined for 412. */
export async function probeIfMatch(
  client: HttpClient,
  url: URL,
  { authorization, ifMatch }: { authorization?: string | undefined; ifMatch?: string | undefined },
  signal: AbortSignal,
): Promise<HttpFileFacts | undefined> {
  const get = await client.request({
    method: 'GET',
    url,
    headers: { range: 'bytes=0-0', ...(ifMatch === undefined ? {} : { 'if-match': ifMatch }) },
    ...(authorization === undefined ? {} : { authorization }),
    redirects: 'follow',
    bodyLimit: 1,
    signal,
  });
  if (get.status === 412 && ifMatch !== undefined) return undefined;
  if (get.status === 206 || get.status === 416) {
    const total = /^bytes (?:0-0|\*)\/(\d+)$/i.exec(get.headers['content-range'] ?? '')?.[1];
    if (total === undefined) {
      throw new HearthError(
        'Unsupported',
        `${printableUrl(url)} does not say how large it is (Content-Range); serve it from a server that does`,
      );
    }
    return facts(get, BigInt(total));
  }
  if (get.status !== 200) throw refusalOf(get);
  const whole = contentLength(get);
  if (whole === undefined) {
    throw new HearthError(
      'Unsupported',
      `${printableUrl(url)} does not say how large it is (Content-Length); serve it as a plain file`,
    );
  }
  if (whole > chunkBytes) {
    throw new HearthError(
      'Unsupported',
      `the server of ${printableUrl(url)} ignores ranges, so only files up to ${chunkBytes / 2 ** 20} MiB can be read from it and this one has ${whole} bytes; ` +
        'serve it with nginx, Apache or an S3-compatible server',
    );
  }
  return facts(get, whole);
}

/**
 * The strong ETag with quotes. Weak ETags begin with W/ and do not promise equal bytes (RFC 9110, 8.8.3). Some servers
 * omit the quotes.
 */
export function strongEtag({ etag }: Pick<IncomingHttpHeaders, 'etag'>): string | undefined {
  if (etag === undefined) return undefined;
  if (/^"[\x21\x23-\x7e\x80-\xff]*"$/.test(etag)) return etag;
  return /^(?!W\/)[\x21\x23-\x7e\x80-\xff]+$/.test(etag) ? `"${etag}"` : undefined;
}

function contentLength(response: HttpResponse): bigint | undefined {
  const text = response.headers['content-length'];
  return text !== undefined && /^\d+$/.test(text) ? BigInt(text) : undefined;
}

function facts(response: HttpResponse, size: bigint): HttpFileFacts {
  const etag = strongEtag(response.headers);
  const { 'last-modified': lastModified } = response.headers;
  return {
    size,
    isQuoted: etag === response.headers.etag,
    ...(etag === undefined ? {} : { etag }),
    ...(lastModified !== undefined && !Number.isNaN(Date.parse(lastModified)) ? { lastModified } : {}),
    servedBy: response.url,
  };
}
