import { readFileSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** A TCP proxy that a test can cut, freeze and close, to simulate network failures. */
export class CutProxy {
  readonly #server: Server;
  readonly #pairs = new Set<{ client: Socket; upstream: Socket }>();
  #port = 0;
  #frozen = false;

  private constructor(target: { host: string; port: number }) {
    this.#server = createServer((client) => {
      const pair = { client, upstream: connect(target) };
      this.#pairs.add(pair);
      const end = () => {
        client.destroy();
        pair.upstream.destroy();
        this.#pairs.delete(pair);
      };
      for (const socket of [client, pair.upstream]) socket.on('error', end).on('close', end);
      if (this.#frozen) return;
      client.pipe(pair.upstream).pipe(client);
    });
  }

  static async start(url: string): Promise<CutProxy> {
    const { hostname, port } = new URL(url);
    const proxy = new CutProxy({ host: hostname, port: Number(port) });
    await proxy.open();
    return proxy;
  }

  /** Accepts connections, always on the same port. */
  async open(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(this.#port, '127.0.0.1', resolve);
    });
    this.#port = (this.#server.address() as { port: number }).port;
  }

  /** Resets all connections; new ones are accepted. */
  cut(): void {
    for (const { client, upstream } of this.#pairs) {
      client.resetAndDestroy();
      upstream.destroy();
    }
    this.#pairs.clear();
  }

  /** Refuses connections. */
  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.cut();
    await closed;
  }

  /** Accepts and keeps connections but forwards nothing. */
  freeze(): void {
    this.#frozen = true;
    for (const { client, upstream } of this.#pairs) {
      client.unpipe(upstream).pause();
      upstream.unpipe(client).pause();
    }
  }

  thaw(): void {
    this.#frozen = false;
    this.cut();
  }

  /** Writes a copy of a kubeconfig that goes through this proxy. Returns its path. */
  kubeconfig(original: string, name: string): string {
    const path = `${original}.${name}`;
    const text = readFileSync(original, 'utf8').replace(
      /https:\/\/127\.0\.0\.1:\d+/,
      `https://127.0.0.1:${this.#port}`,
    );
    writeFileSync(path, text, { mode: 0o600 });
    return path;
  }
}
