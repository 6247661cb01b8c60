import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { HearthError } from '@hearth/common';

/** `/healthz`: the process lives and its event loop turns. `/readyz`: it serves, else 503 with the reasons. */
export class HealthServer {
  readonly #server: Server;

  /** `reasons`: why it does not serve, one a line; none when it does. */
  constructor(reasons: () => string[]) {
    this.#server = createServer((request, response) => {
      const [status, text] = answer(request.url ?? '', reasons);
      response
        .writeHead(status, { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' })
        .end(text);
    });
    this.#server.headersTimeout = 5_000;
    this.#server.requestTimeout = 10_000;
  }

  /** The port. `IoError` when it cannot be had. */
  async listen(host: string, port: number): Promise<number> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', (error) => {
        const place = `${host}:${port}`;
        reject(
          new HearthError(
            'IoError',
            `health cannot be served on ${place} (${error.message}); set --health-listen to another address`,
          ),
        );
      });
      this.#server.listen({ host, port }, resolve);
    });
    return (this.#server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    if (this.#server.listening) await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }
}

function answer(path: string, reasons: () => string[]): [number, string] {
  switch (path) {
    case '/healthz':
      return [200, 'ok\n'];
    case '/readyz': {
      const found = reasons();
      return found.length === 0 ? [200, 'ok\n'] : [503, `${found.join('\n')}\n`];
    }
    default:
      return [404, 'there are /healthz and /readyz\n'];
  }
}
