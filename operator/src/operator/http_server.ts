import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { HearthError, type Logger } from '@hearth/common';

export interface HttpSource {
  /** Why the replica is not ready; empty when it is. */
  reasons(): string[];
  metrics(): Promise<{ contentType: string; text: string }>;
}

/** `/healthz`: the event loop turns. `/readyz`: the replica could lead, else the reasons. `/metrics`. Nothing secret. */
export class HttpServer {
  readonly #server: Server;
  readonly #source: HttpSource;
  readonly #logger: Logger;

  constructor(source: HttpSource, logger: Logger) {
    this.#source = source;
    this.#logger = logger;
    this.#server = createServer((request, response) => void this.#answer(request, response));
    this.#server.headersTimeout = 5_000;
    this.#server.requestTimeout = 10_000;
  }

  /** The real port. `InUse` when another program listens there. `host` undefined: all addresses. */
  async listen(port: number, host?: string): Promise<number> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', (error: NodeJS.ErrnoException) =>
        reject(
          new HearthError(
            error.code === 'EADDRINUSE' ? 'InUse' : 'IoError',
            `the operator cannot listen on port ${port} (${error.message}); stop what does, or set HEARTH_HTTP_PORT`,
          ),
        ),
      );
      this.#server.listen({ port, host }, resolve);
    });
    return (this.#server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    if (!this.#server.listening) return;
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = (request.url ?? '').split('?')[0];
    if (request.method !== 'GET' && request.method !== 'HEAD') return send(response, 405, 'only GET and HEAD\n');
    switch (path) {
      case '/healthz':
        return send(response, 200, 'ok\n');
      case '/readyz': {
        const reasons = this.#source.reasons();
        if (reasons.length === 0) return send(response, 200, 'ok\n');
        return send(response, 503, `${reasons.join('\n')}\n`);
      }
      case '/metrics':
        return await this.#metrics(response);
      default:
        return send(response, 404, 'there are /healthz, /readyz and /metrics\n');
    }
  }

  async #metrics(response: ServerResponse): Promise<void> {
    try {
      const { contentType, text } = await this.#source.metrics();
      send(response, 200, text, contentType);
    } catch (thrown) {
      this.#logger.warn('metrics could not be read', { error: HearthError.from(thrown) });
      send(response, 500, `${HearthError.from(thrown).message}\n`);
    }
  }
}

function send(response: ServerResponse, status: number, text: string, contentType = 'text/plain; charset=utf-8'): void {
  response.writeHead(status, { 'content-type': contentType, 'cache-control': 'no-store' }).end(text);
}
