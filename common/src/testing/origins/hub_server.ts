import { createHash, randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { sha256 } from '../sample.ts';
import { type ScriptedServer, sendFile, sendJson, startServer } from './scripted_server.ts';

/** The git object id of a file (git hash-object). */
export function gitId(bytes: Buffer | string): string {
  return createHash('sha1')
    .update(`blob ${Buffer.byteLength(bytes)}\0`)
    .update(bytes)
    .digest('hex');
}

const pieceBytes = 256 << 10;

export interface HubOptions {
  /** Absent: the repository is public. */
  token?: string;
  /** Query of signed URLs; default: random. */
  signature?: string;
  /** Rate over all large files; absent: unlimited. */
  bytesPerSecond?: number;
}

/**
 * A hub with one repository, like huggingface.co; gated when it has a token. Listing needs the token; bytes of large
 * files come from another server by signed URLs that work for anyone.
 */
export class HubServer implements AsyncDisposable {
  readonly #hub: ScriptedServer;
  readonly #store: ScriptedServer;
  readonly #repo: string;
  readonly #commit = gitId('commit');
  readonly #files: Map<string, Buffer>;
  readonly #token: string | undefined;
  /** Query of signed URLs. */
  readonly signature: string;
  readonly #bytesPerSecond: number | undefined;
  /** Earliest time of the next piece at the configured rate, ms of `performance.now()`. */
  #nextPieceMs = 0;

  private constructor(
    servers: { hub: ScriptedServer; store: ScriptedServer },
    repo: string,
    files: Record<string, Buffer>,
    options: HubOptions,
  ) {
    this.#hub = servers.hub;
    this.#store = servers.store;
    this.#repo = repo;
    this.#files = new Map(Object.entries(files));
    this.#token = options.token;
    this.signature = options.signature ?? randomBytes(32).toString('hex');
    this.#bytesPerSecond = options.bytesPerSecond;
    this.#hub.handler = (request, response) => this.#answer(request, response);
    this.#store.handler = (request, response) => this.#answerStore(request, response);
  }

  /** `address`: one that the nodes of a cluster can reach. */
  static async start(
    address: string,
    repo: string,
    files: Record<string, Buffer>,
    options: HubOptions = {},
  ): Promise<HubServer> {
    const [hub, store] = [await startServer(undefined, address), await startServer(undefined, address)];
    return new HubServer({ hub, store }, repo, files, options);
  }

  get url(): string {
    return this.#hub.url;
  }

  /** Number of requests for signed URLs, and of those with an Authorization header. */
  get storeRequests(): { count: number; authorized: number } {
    const { requests } = this.#store;
    return { count: requests.length, authorized: requests.filter((one) => one.authorization !== undefined).length };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#hub.stop();
    await this.#store.stop();
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    if (this.#token !== undefined && request.headers.authorization !== `Bearer ${this.#token}`) {
      response.writeHead(401, { 'content-type': 'text/plain' }).end('Access to this model is restricted');
      return;
    }
    const { pathname } = new URL(request.url ?? '', this.#hub.url);
    const api = `/api/models/${this.#repo}`;
    const files = `/${this.#repo}/resolve/${this.#commit}/`;
    if (pathname === `${api}/revision/main`) sendJson(response, { sha: this.#commit, siblings: [] });
    else if (pathname === `${api}/tree/${this.#commit}`) sendJson(response, this.#tree());
    else this.#answerFile(pathname.startsWith(files) ? pathname.slice(files.length) : '', request, response);
  }

  #tree(): object[] {
    return [...this.#files].map(([path, bytes]) => ({
      type: 'file',
      path,
      size: bytes.length,
      oid: gitId(bytes),
      ...(isLarge(path) ? { lfs: { oid: sha256(bytes), size: bytes.length } } : {}),
    }));
  }

  #answerFile(encoded: string, request: IncomingMessage, response: ServerResponse): void {
    const path = decodeURIComponent(encoded);
    const bytes = this.#files.get(path);
    if (bytes === undefined) response.writeHead(404).end();
    else if (isLarge(path)) {
      const location = `${this.#store.url}/${encoded}?X-Amz-Signature=${this.signature}`;
      const linked = { 'x-linked-etag': `"${sha256(bytes)}"`, 'x-linked-size': bytes.length };
      response.writeHead(302, { location, ...linked }).end();
    } else sendFile(request, response, bytes, { etag: `"${gitId(bytes)}"` });
  }

  #answerStore(request: IncomingMessage, response: ServerResponse): void {
    const { pathname, searchParams } = new URL(request.url ?? '', this.#store.url);
    const bytes = this.#files.get(decodeURIComponent(pathname.slice(1)));
    if (searchParams.get('X-Amz-Signature') !== this.signature) response.writeHead(403).end();
    else if (bytes === undefined) response.writeHead(404).end();
    else sendFile(request, response, bytes, { etag: `"${sha256(bytes)}"` }, (part) => this.#paced(part));
  }

  #paced(part: Buffer): Readable | Buffer {
    const rate = this.#bytesPerSecond;
    return rate === undefined ? part : Readable.from(this.#pieces(part, rate), { objectMode: false });
  }

  /** All responses share one rate. */
  async *#pieces(part: Buffer, bytesPerSecond: number) {
    for (let at = 0; at < part.length; at += pieceBytes) {
      const piece = part.subarray(at, at + pieceBytes);
      const now = performance.now();
      this.#nextPieceMs = Math.max(now, this.#nextPieceMs) + (1000 * piece.length) / bytesPerSecond;
      await sleep(this.#nextPieceMs - now);
      yield piece;
    }
  }
}

/** True for files in large file storage. */
const isLarge = (path: string): boolean => /\.(safetensors|gguf)$/.test(path);
