import { timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { epochMs, HearthError } from '@hearth/common';
import { explain } from '../../explain/explanation.ts';
import { podFacts } from '../../explain/facts.ts';
import type { ClusterSession } from '../cluster_session.ts';
import { readOverview } from '../overview/read_overview.ts';
import { errorPage, overviewPage, podPage, styleHash } from './pages.ts';

export interface UiOptions {
  /** 0: any free port. */
  port: number;
  /** First part of every path; anyone who knows the token may read. */
  token: string;
  refreshSeconds: number;
}

/** Other pages may neither frame this page nor learn its address, and no script runs in it. */
const headers = {
  'cache-control': 'no-store',
  'content-security-policy': `default-src 'none'; style-src '${styleHash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  'content-type': 'text/html; charset=utf-8',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
};

/**
 * Serves pages on 127.0.0.1, rendered from the API server's state at each request. A request needs the token and a Host
 * header that names this server, because a foreign name may resolve to 127.0.0.1 (DNS rebinding). Read-only.
 */
export class UiServer implements AsyncDisposable {
  readonly #session: ClusterSession;
  readonly #options: UiOptions;
  readonly #server: Server;

  private constructor(session: ClusterSession, options: UiOptions) {
    this.#session = session;
    this.#options = options;
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  /** Throws `InUse` when another program listens on the port. */
  static async start(session: ClusterSession, options: UiOptions): Promise<UiServer> {
    const made = new UiServer(session, options);
    await new Promise<void>((resolve, reject) => {
      made.#server.once('error', (error) =>
        reject(new HearthError('InUse', `cannot listen on 127.0.0.1:${options.port}: ${error.message}; give --port`)),
      );
      made.#server.listen(options.port, '127.0.0.1', resolve);
    });
    return made;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** URL with the token. */
  get url(): string {
    return `http://127.0.0.1:${this.port}/${this.#options.token}/`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { status, page } = await this.#page(request);
    response.writeHead(status, { ...headers, ...(status === 405 ? { allow: 'GET, HEAD' } : {}) });
    response.end(request.method === 'HEAD' ? undefined : page);
  }

  async #page(request: IncomingMessage): Promise<{ status: number; page: string }> {
    const { host = '', 'sec-fetch-site': site = 'none' } = request.headers;
    if (host !== `127.0.0.1:${this.port}` && host !== `localhost:${this.port}`) {
      return refused(421, 'This server answers to 127.0.0.1 alone.');
    }
    if (site === 'cross-site') return refused(403, 'Open the address yourself.');
    if (request.method !== 'GET' && request.method !== 'HEAD') return refused(405, 'This page is read-only.');
    const [, token = '', ...parts] = (request.url ?? '').replace(/\?.*$/, '').split('/');
    if (!isEqual(token, this.#options.token)) return refused(403, 'The address lacks its token; copy all of it.');
    try {
      return await this.#known(parts.map(decodeURIComponent));
    } catch (thrown) {
      const { code, message } =
        thrown instanceof URIError ? new HearthError('NotFound', 'no such page') : HearthError.from(thrown);
      return { status: code === 'NotFound' ? 404 : 502, page: errorPage(message) };
    }
  }

  async #known(parts: string[]): Promise<{ status: number; page: string }> {
    const [kind = '', namespace = '', name = '', ...rest] = parts;
    const { refreshSeconds } = this.#options;
    if (kind === '' && parts.length === 1) {
      return { status: 200, page: overviewPage(await readOverview(this.#session), refreshSeconds) };
    }
    if (kind === 'pods' && namespace !== '' && name !== '' && rest.length === 0) {
      const { api } = await this.#session.cluster();
      const facts = await podFacts(api, namespace, name, this.#session.signal());
      const explanation = explain(facts, epochMs(this.#session.terminal.clock));
      return { status: 200, page: podPage(explanation, refreshSeconds) };
    }
    return refused(404, 'Page not found.');
  }
}

function refused(status: number, message: string) {
  return { status, page: errorPage(message) };
}

function isEqual(given: string, wanted: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(wanted)];
  return a.length === b.length && timingSafeEqual(a, b);
}
