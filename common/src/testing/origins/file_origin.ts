import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, isIPv6 } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { sha256 } from '../sample.ts';

const pieceBytes = 64 << 10;

/** A web server for files in memory, with ranges and strong validators. Can be slow or failing. */
export class FileOrigin implements AsyncDisposable {
  readonly #files = new Map<string, { bytes: Buffer; tag: string; token: string | undefined }>();
  readonly #server: Server;
  /** Bytes per second of each response; undefined: unlimited. */
  bytesPerSecond: number | undefined;
  /** Answers every request with 503. */
  failing = false;
  /** No answer sends this byte of its file or a later one; undefined: no limit. Answers wait until a test changes it. */
  heldFrom: number | undefined;
  /** Bytes of file contents sent so far. */
  sentBytes = 0;

  private constructor() {
    this.#server = createServer((request, response) => {
      this.#answer(request, response).catch(() => response.destroy());
    });
  }

  /** `address`: one that the nodes of a cluster can reach. */
  static async start(address: string): Promise<FileOrigin> {
    const origin = new FileOrigin();
    await new Promise<void>((resolve, reject) => {
      origin.#server.once('error', reject).listen(0, address, resolve);
    });
    return origin;
  }

  get #address(): AddressInfo {
    return this.#server.address() as AddressInfo;
  }

  /** Serves a file, only to clients with `token` if given; returns its URL. */
  add(path: string, bytes: Buffer, token?: string): string {
    this.#files.set(`/${path}`, { bytes, tag: `"${sha256(bytes)}"`, token });
    const { address, port } = this.#address;
    return `http://${isIPv6(address) ? `[${address}]` : address}:${port}/${path}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.failing) return void response.writeHead(503).end();
    const file = this.#files.get(request.url ?? '');
    if (!file) return void response.writeHead(404).end();
    const { bytes, tag, token } = file;
    if (token && request.headers.authorization !== `Bearer ${token}`) return void response.writeHead(401).end();
    const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '');
    const first = Number(range?.[1] ?? 0);
    const last = Math.min(range?.[2] ? Number(range[2]) : bytes.length - 1, bytes.length - 1);
    const headers = { 'accept-ranges': 'bytes', etag: tag, 'content-length': last - first + 1 };
    if (range) response.writeHead(206, { ...headers, 'content-range': `bytes ${first}-${last}/${bytes.length}` });
    else response.writeHead(200, headers);
    if (request.method === 'HEAD') return void response.end();
    for (let at = first; at <= last && !response.destroyed; at += pieceBytes) {
      const piece = bytes.subarray(at, Math.min(at + pieceBytes, last + 1));
      while (at + piece.length > (this.heldFrom ?? bytes.length) && !this.failing && !response.destroyed)
        await sleep(20);
      if (this.failing) return void response.destroy();
      if (!response.write(piece) && !response.destroyed) await drained(response);
      this.sentBytes += piece.length;
      if (this.bytesPerSecond) await sleep((1000 * piece.length) / this.bytesPerSecond);
    }
    response.end();
  }
}

function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      response.off('drain', end).off('close', end);
      resolve();
    };
    response.once('drain', end).once('close', end);
  });
}
