import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, ListenOptions } from 'node:net';
import { HearthError } from './error.ts';
import type { Logger } from './logger.ts';

export interface HealthSource {
  /** Reasons why the process is not ready; empty when ready. */
  reasons(): string[];
  /** Absent when the process has no metrics. */
  metrics?(): Promise<{ contentType: string; text: string }>;
}

/** `InUse` when another program listens on the port. `variable` names the setting that selects another port. */
export function listenFailure(
  listener: string,
  port: number,
  variable: string,
): (error: NodeJS.ErrnoException) => HearthError {
  return ({ code, message }) => {
    const sentence = `${listener} cannot listen on port ${port} (${message}); stop what does, or set ${variable}`;
    return new HearthError(code === 'EADDRINUSE' ? 'InUse' : 'IoError', sentence);
  };
}

/**
 * HTTP endpoints of every long-running process: `/healthz` answers while the event loop turns; `/readyz` answers 200,
 * or 503 with one reason a line; `/metrics` (docs/metrics.md) exists where the process has metrics. No endpoint reveals
 * secrets.
 */
export class HealthServer {
  readonly #server: Server;
  readonly #source: HealthSource;
  readonly #logger: Logger;

  constructor(source: HealthSource, logger: Logger) {
    this.#source = source;
    this.#logger = logger;
    this.#server = createServer((request, response) => void this.#answer(request, response));
    this.#server.headersTimeout = 5_000;
    this.#server.requestTimeout = 10_000;
  }

  /** Returns the bound port. `explain` converts the error of an address that cannot be bound. */
  async bind(where: ListenOptions, explain: (error: NodeJS.ErrnoException) => HearthError): Promise<number> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', (error: NodeJS.ErrnoException) => reject(explain(error)));
      this.#server.listen(where, resolve);
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
      default:
        if (this.#source.metrics === undefined) return send(response, 404, 'there are /healthz and /readyz\n');
        if (path === '/metrics') return await this.#metrics(this.#source.metrics(), response);
        return send(response, 404, 'there are /healthz, /readyz and /metrics\n');
    }
  }

  async #metrics(metrics: ReturnType<NonNullable<HealthSource['metrics']>>, response: ServerResponse): Promise<void> {
    try {
      const { contentType, text } = await metrics;
      send(response, 200, text, contentType);
    } catch (thrown) {
      this.#logger.warn('failed to collect metrics', { error: HearthError.from(thrown) });
      send(response, 500, `${HearthError.from(thrown).message}\n`);
    }
  }
}

function send(response: ServerResponse, status: number, text: string, contentType = 'text/plain; charset=utf-8'): void {
  response.writeHead(status, { 'content-type': contentType, 'cache-control': 'no-store' }).end(text);
}
