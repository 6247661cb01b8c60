import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type ScriptedServer, sendFile, startServer } from './scripted_server.ts';

/** Deviations of a gateway from S3. Default: like S3. `md5` is hexadecimal without quotes. */
export interface S3Oddities {
  /** ETag in listings; undefined: none. */
  listedEtag?: (md5: string) => string | undefined;
  /** ETag in object responses; undefined: none. */
  servedEtag?: (md5: string, key: string) => string | undefined;
  /** True when If-Match with this value holds. */
  matches?: (condition: string, servedEtag: string) => boolean;
  lastModified?: string | undefined;
  /** Bytes to serve instead of the listed ones. */
  served?: (listed: Buffer) => Buffer;
  storageClass?: (key: string) => string;
  /** A key as listings show it; its answers then announce percent-encoding (EncodingType). */
  listedKey?: (key: string) => string;
  /** The listed keys in the order of the listing, for one that repeats keys. Default: each key once. */
  listed?: (keys: string[]) => string[];
  /** Size in listings, per occurrence of a key. */
  listedSize?: (key: string, occurrence: number) => number | undefined;
  /** Milliseconds by which the server's clock is ahead; it refuses signatures that are 15 minutes off. */
  clockAheadMs?: number;
}

const listedAt = '2026-01-02T03:04:05.000Z';
const maxSkewMs = 15 * 60_000;
const md5 = (bytes: Buffer): string => createHash('md5').update(bytes).digest('hex');

/** A public gateway with one bucket, `bench`, and the deviations of gateways in the field. */
export class OddS3 implements AsyncDisposable {
  readonly #server: ScriptedServer;
  readonly #objects: Map<string, Buffer>;
  readonly #oddities: S3Oddities;

  private constructor(server: ScriptedServer, objects: Record<string, Buffer>, oddities: S3Oddities) {
    this.#server = server;
    this.#objects = new Map(Object.entries(objects));
    this.#oddities = oddities;
    server.handler = (request, response) => this.#answer(request, response);
  }

  static async start(objects: Record<string, Buffer>, oddities: S3Oddities): Promise<OddS3> {
    return new OddS3(await startServer(), objects, oddities);
  }

  get url(): string {
    return this.#server.url;
  }

  /** The source in the form that datasets take. */
  get source(): string {
    return `s3://bench?endpoint=${this.url}`;
  }

  /** Number of object requests so far. */
  get objectRequests(): number {
    return this.#server.requests.filter(({ path }) => !path.includes('list-type=')).length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.stop();
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const { pathname, searchParams } = new URL(request.url ?? '', this.url);
    const { clockAheadMs = 0 } = this.#oddities;
    const now = Date.now() + clockAheadMs;
    response.setHeader('date', new Date(now).toUTCString());
    const signedAt = request.headers['x-amz-date'] ?? searchParams.get('X-Amz-Date');
    const isSkewed = typeof signedAt === 'string' && Math.abs(timeOf(signedAt) - now) > maxSkewMs;
    const key = decodeURIComponent(pathname.replace(/^\/bench\/?/, ''));
    const object = this.#objects.get(key);
    if (isSkewed) refuse(response, 403, 'RequestTimeTooSkewed');
    else if (key === '') this.#list(searchParams.get('prefix') ?? '', response);
    else if (object === undefined) refuse(response, 404, 'NoSuchKey');
    else this.#serve(key, object, request, response);
  }

  #list(prefix: string, response: ServerResponse): void {
    const { listedEtag = (digest) => `"${digest}"`, storageClass = () => 'STANDARD' } = this.#oddities;
    const { listedKey, listed = (keys) => keys, listedSize = () => undefined } = this.#oddities;
    const seen = new Map<string, number>();
    const rows = listed([...this.#objects.keys()])
      .filter((key) => key.startsWith(prefix))
      .map((key) => {
        const bytes = this.#objects.get(key) ?? Buffer.alloc(0);
        const occurrence = seen.get(key) ?? 0;
        seen.set(key, occurrence + 1);
        const etag = listedEtag(md5(bytes));
        const tag = etag === undefined ? '' : `<ETag>${etag.replaceAll('"', '&quot;')}</ETag>`;
        const size = listedSize(key, occurrence) ?? bytes.length;
        const about = `<Size>${size}</Size><LastModified>${listedAt}</LastModified>`;
        const shown = (listedKey ?? ((own) => own))(key).replaceAll('&', '&amp;').replaceAll('<', '&lt;');
        return `<Contents><Key>${shown}</Key>${about}${tag}<StorageClass>${storageClass(key)}</StorageClass></Contents>`;
      });
    const encoding = listedKey === undefined ? '' : '<EncodingType>url</EncodingType>';
    const xml = `<ListBucketResult>${encoding}<IsTruncated>false</IsTruncated>${rows.join('')}</ListBucketResult>`;
    response.writeHead(200, { 'content-type': 'application/xml' }).end(xml);
  }

  #serve(key: string, object: Buffer, request: IncomingMessage, response: ServerResponse): void {
    const { servedEtag = (digest: string) => `"${digest}"`, served = (listed: Buffer) => listed } = this.#oddities;
    const { matches = (condition: string, tag: string) => condition === tag } = this.#oddities;
    const etag = servedEtag(md5(object), key);
    const condition = request.headers['if-match'];
    const date = 'lastModified' in this.#oddities ? this.#oddities.lastModified : new Date(listedAt).toUTCString();
    if (condition !== undefined && !matches(condition, etag ?? '')) refuse(response, 412, 'PreconditionFailed');
    else sendFile(request, response, served(object), { etag, 'last-modified': date });
  }
}

/** 20260102T030405Z */
function timeOf(signedAt: string): number {
  const [, date = '', time = ''] = /^(\d{8})T(\d{6})Z$/.exec(signedAt) ?? [];
  return Date.parse(`${date.replace(/(..)(..)$/, '-$1-$2')}T${time.replace(/(..)(..)$/, ':$1:$2')}Z`);
}

function refuse(response: ServerResponse, status: number, code: string): void {
  response.writeHead(status, { 'content-type': 'application/xml' }).end(`<Error><Code>${code}</Code></Error>`);
}
