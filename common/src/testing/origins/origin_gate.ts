import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { systemClock } from '../../clock.ts';

/** Stands before a server on loopback, so that a test can take it away, slow it down and bring it back. */
export class OriginGate implements AsyncDisposable {
  /** Of all answers together; undefined: no limit. A test may change it at any time. */
  bytesPerSecond: number | undefined;
  readonly #server: URL;
  readonly #sockets = new Set<Socket>();
  #listener: Server | undefined;
  #port = 0;
  /** When bytes may go on, in milliseconds of the clock. */
  #freeAt = 0;

  private constructor(server: URL) {
    this.#server = server;
  }

  /** `server`: the URL of the server, without a path. */
  static async start(server: string): Promise<OriginGate> {
    const gate = new OriginGate(new URL(server));
    await gate.open();
    return gate;
  }

  /** Always the same, without a trailing '/'. */
  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  async open(): Promise<void> {
    if (this.#listener !== undefined) return;
    const listener = createServer((socket) => this.#serve(socket));
    await new Promise<void>((resolve, reject) => {
      listener.once('error', reject);
      listener.listen(this.#port, '127.0.0.1', resolve);
    });
    this.#listener = listener;
    this.#port = (listener.address() as AddressInfo).port;
  }

  /** Breaks off all connections and refuses others. */
  async close(): Promise<void> {
    const listener = this.#listener;
    this.#listener = undefined;
    const closed = new Promise<void>((resolve) =>
      listener === undefined ? resolve() : listener.close(() => resolve()),
    );
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #serve(client: Socket): void {
    const server = connect(Number(this.#server.port), this.#server.hostname);
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(socket);
      socket.on('error', () => socket.destroy());
      socket.on('close', () => {
        this.#sockets.delete(socket);
        // What has been written still goes out.
        other.destroySoon();
      });
    }
    client.pipe(server);
    server.on('data', (piece) => {
      const isFull = !client.write(piece);
      const pauseMs = this.#pauseAfter(piece.length);
      if (!isFull && pauseMs === 0) return;
      server.pause();
      const goOn = () => void systemClock.schedule(pauseMs, () => server.resume());
      if (isFull) client.once('drain', goOn);
      else goOn();
    });
  }

  #pauseAfter(bytes: number): number {
    if (this.bytesPerSecond === undefined) return 0;
    const now = systemClock.now();
    this.#freeAt = Math.max(now, this.#freeAt) + (1000 * bytes) / this.bytesPerSecond;
    return this.#freeAt - now;
  }
}
