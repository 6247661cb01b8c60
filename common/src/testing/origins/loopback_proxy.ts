import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import type { Duplex } from 'node:stream';

/** An HTTP proxy that resolves every name to loopback and connects to the requested port. */
export class LoopbackProxy {
  /** Status for refusing every request; undefined serves them. Tests may change it at any time. */
  refusal: number | undefined;
  /** Requests received: `GET http://host:port/path`, `CONNECT host:port`. */
  readonly asked: string[] = [];
  /** Proxy credentials of each request. */
  readonly authorizations: (string | undefined)[] = [];
  readonly #server = createServer((incoming, outgoing) => this.#serve(incoming, outgoing));
  readonly #tunnels = new Set<Duplex>();

  private constructor() {
    this.#server.on('connect', (incoming: IncomingMessage, socket: Duplex) => this.#tunnel(incoming, socket));
  }

  static async start(): Promise<LoopbackProxy> {
    const proxy = new LoopbackProxy();
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    for (const tunnel of this.#tunnels) tunnel.destroy();
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeAllConnections();
    await closed;
  }

  #note({ method, url, headers }: IncomingMessage): void {
    this.asked.push(`${method} ${url}`);
    this.authorizations.push(headers['proxy-authorization']);
  }

  #serve(incoming: IncomingMessage, outgoing: ServerResponse): void {
    this.#note(incoming);
    if (this.refusal !== undefined) {
      outgoing.writeHead(this.refusal).end();
      return;
    }
    const { port, pathname, search } = new URL(incoming.url ?? '');
    const target = { host: '127.0.0.1', port, path: `${pathname}${search}` };
    request({ ...target, method: incoming.method, headers: incoming.headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    })
      .on('error', () => outgoing.destroy())
      .end();
  }

  #tunnel(incoming: IncomingMessage, socket: Duplex): void {
    this.#note(incoming);
    this.#hold(socket);
    if (this.refusal !== undefined) {
      socket.end(`HTTP/1.1 ${this.refusal} Refused\r\ncontent-length: 0\r\n\r\n`);
      return;
    }
    const target = connect(Number(incoming.url?.split(':').at(-1)), '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 Connected\r\n\r\n');
      socket.pipe(target).pipe(socket);
    });
    this.#hold(target);
  }

  #hold(socket: Duplex): void {
    this.#tunnels.add(socket);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => this.#tunnels.delete(socket));
  }
}
