import { X509Certificate } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { HearthError, type Logger } from '@hearth/common';
import { listenFailure } from '@hearth/common/health';
import { type Clock, sleep, systemClock } from '@hearth/common/kubernetes';
import type { Webhook } from './webhook.ts';

export interface WebhookServerOptions {
  webhook: Pick<Webhook, 'answer'>;
  logger: Logger;
  /** Time reserved for the network and the API server, ms. Default: 400. */
  reserveMs?: number;
  clock?: Clock;
}

export const webhookPath = '/mutate-pods';
/** The time of a review without a timeout, ms. The chart sets two seconds. */
const defaultTimeMs = 2_000;
/** etcd limits a pod to 1.5 MiB, and a review contains it once. */
const largestBody = 4 * 1024 * 1024;
/** Longer than the API server keeps idle connections (90 s), so that the server never closes a connection in use. */
const keepAliveMs = 120_000;
const minVersion = 'TLSv1.2';

/** Serves reviews over HTTPS. Without a certificate it listens and answers no client. */
export class WebhookServer {
  readonly #options: WebhookServerOptions;
  readonly #server: Server;
  #certificate: X509Certificate | undefined;

  constructor(options: WebhookServerOptions) {
    this.#options = options;
    this.#server = createServer({ minVersion }, (request, response) => void this.#answer(request, response));
    this.#server.headersTimeout = 5_000;
    this.#server.requestTimeout = 10_000;
    this.#server.keepAliveTimeout = keepAliveMs;
    this.#server.on('tlsClientError', (error) => {
      options.logger.debug('failed to accept a connection to the webhook', { error });
    });
  }

  /** Returns the port. Throws `InUse` when another program listens there. */
  async listen(port: number, host?: string): Promise<number> {
    await new Promise<void>((resolve, reject) => {
      const failure = listenFailure('the webhook', port, 'HEARTH_WEBHOOK_PORT');
      this.#server.once('error', (error: NodeJS.ErrnoException) => reject(failure(error)));
      this.#server.listen({ port, host }, resolve);
    });
    return (this.#server.address() as AddressInfo).port;
  }

  /** Applies to new connections. Throws `InvalidArgument` and keeps the former pair when the two do not match. */
  setCertificate(certificate: string, key: string): void {
    try {
      const parsed = new X509Certificate(certificate);
      this.#server.setSecureContext({ cert: certificate, key, minVersion });
      this.#certificate = parsed;
    } catch (thrown) {
      const { message } = HearthError.from(thrown);
      throw new HearthError('InvalidArgument', `the certificate of the webhook cannot be used: ${message}`);
    }
  }

  get expiresAt(): Date | undefined {
    return this.#certificate?.validToDate;
  }

  /** Keeps serving for `lingerMs`, while API servers learn of the end, then finishes running answers. */
  async close(lingerMs: number): Promise<void> {
    if (!this.#server.listening) return;
    const { clock = systemClock } = this.#options;
    await sleep(clock, lingerMs);
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    const cancel = clock.schedule(defaultTimeMs, () => this.#server.closeAllConnections());
    await closed;
    cancel();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { webhook, logger, reserveMs = 400 } = this.#options;
    try {
      const url = new URL(request.url ?? '/', 'https://webhook');
      if (request.method !== 'POST' || url.pathname !== webhookPath) {
        return send(response, 404, `there is POST ${webhookPath}\n`);
      }
      const body = await readBody(request);
      if (body === undefined) return send(response, 413, `a review has at most ${largestBody} bytes\n`);
      const answer = await webhook.answer(parse(body), timeOf(url) - reserveMs);
      send(response, 200, JSON.stringify(answer), 'application/json');
    } catch (thrown) {
      const error = HearthError.from(thrown);
      logger.warn('failed to answer a request to the webhook', { error });
      send(response, error.code === 'InvalidArgument' ? 400 : 500, `${error.message}\n`);
    }
  }
}

/** From the query: `timeout=2s`. */
function timeOf(url: URL): number {
  const match = /^(\d{1,3})s$/.exec(url.searchParams.get('timeout') ?? '');
  return match === null ? defaultTimeMs : Math.min(defaultTimeMs, Number(match[1]) * 1000);
}

/** Undefined for a larger body, whose rest is not read. */
async function readBody(request: IncomingMessage): Promise<Buffer | undefined> {
  if (Number(request.headers['content-length'] ?? 0) > largestBody) return undefined;
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of request) {
    size += (part as Buffer).length;
    if (size > largestBody) return undefined;
    parts.push(part as Buffer);
  }
  return Buffer.concat(parts);
}

function parse(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    throw new HearthError('InvalidArgument', 'the body is not JSON');
  }
}

function send(response: ServerResponse, status: number, text: string, contentType = 'text/plain; charset=utf-8'): void {
  if (response.headersSent) return;
  const close = status === 413 ? { connection: 'close' } : {};
  response.writeHead(status, { 'content-type': contentType, ...close }).end(text);
}
