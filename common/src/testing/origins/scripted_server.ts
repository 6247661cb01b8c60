import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import type { KeyPair } from '../authority.ts';

export type Handler = (request: IncomingMessage, response: ServerResponse) => void;

/** A server whose responses a test writes. */
export interface ScriptedServer {
  /** Without a trailing '/'. */
  url: string;
  /** Tests may change it at any time. */
  handler: Handler;
  /** Every request so far. */
  requests: { method: string; path: string; authorization: string | undefined; range: string | undefined }[];
  stop(): Promise<void>;
}

/** `tls`: certificate for the address. `host`: listening address, default loopback. */
export function startServer(tls?: KeyPair, host = '127.0.0.1'): Promise<ScriptedServer> {
  const listener: Handler = (request, response) => {
    const { authorization, range } = request.headers;
    server.requests.push({ method: request.method ?? '', path: request.url ?? '', authorization, range });
    server.handler(request, response);
  };
  const http =
    tls === undefined
      ? createServer(listener)
      : createSecureServer({ key: readFileSync(tls.key), cert: readFileSync(tls.certificate) }, listener);
  const server: ScriptedServer = {
    url: '',
    handler: (_request, response) => response.writeHead(404).end(),
    requests: [],
    stop: () =>
      new Promise((resolve) => {
        http.close(() => resolve());
        http.closeAllConnections();
      }),
  };
  return new Promise((resolve, reject) => {
    http.once('error', reject);
    http.listen(0, host, () => {
      server.url = `${tls === undefined ? 'http' : 'https'}://${host}:${(http.address() as AddressInfo).port}`;
      resolve(server);
    });
  });
}

export function sendJson(response: ServerResponse, value: unknown): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
}

/**
 * Answers like nginx for a file: HEAD, ranges, ETag, Last-Modified. `headers` override; undefined removes. `content`
 * may return a stream of the requested bytes.
 */
export function sendFile(
  request: IncomingMessage,
  response: ServerResponse,
  body: Buffer,
  headers: Record<string, string | undefined> = {},
  content: (part: Buffer) => Buffer | Readable = (part) => part,
): void {
  const all: Record<string, string | undefined> = {
    'content-type': 'application/octet-stream',
    'last-modified': 'Fri, 20 Nov 2026 10:00:00 GMT',
    'accept-ranges': 'bytes',
    ...headers,
  };
  for (const [name, value] of Object.entries(all)) if (value !== undefined) response.setHeader(name, value);
  const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '');
  const part =
    range !== null && all['accept-ranges'] === 'bytes' ? body.subarray(Number(range[1]), Number(range[2]) + 1) : body;
  if (part !== body) {
    response.statusCode = 206;
    response.setHeader('content-range', `bytes ${range?.[1]}-${range?.[2]}/${body.length}`);
  }
  response.setHeader('content-length', part.length);
  const sent = request.method === 'HEAD' ? undefined : content(part);
  if (sent instanceof Readable) sent.pipe(response);
  else response.end(sent);
}
