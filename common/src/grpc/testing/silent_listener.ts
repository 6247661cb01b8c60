import { createServer, type Server, type Socket } from 'node:net';

/** Accepts connections and never answers, like a machine where only the kernel still runs. */
export class SilentListener {
  readonly address: string;
  /** Number of connections accepted so far. */
  accepted = 0;
  readonly #server: Server;
  readonly #sockets: Set<Socket>;

  private constructor(server: Server, sockets: Set<Socket>, address: string) {
    this.#server = server;
    this.#sockets = sockets;
    this.address = address;
  }

  /** Listens on `127.0.0.1:PORT`, by default on any free port. */
  static async start(port = 0): Promise<SilentListener> {
    const sockets = new Set<Socket>();
    let listener: SilentListener | undefined;
    const server = createServer((socket) => {
      if (listener !== undefined) listener.accepted++;
      sockets.add(socket);
      socket.on('error', () => undefined).once('close', () => sockets.delete(socket));
      // Without reading, the end of the connection would go unnoticed.
      socket.resume();
    }).listen(port, '127.0.0.1');
    await new Promise((done, failed) => server.once('listening', done).once('error', failed));
    const { port: taken } = server.address() as { port: number };
    listener = new SilentListener(server, sockets, `127.0.0.1:${taken}`);
    return listener;
  }

  /** Number of open connections. */
  get connections(): number {
    return this.#sockets.size;
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((done) => this.#server.close(done));
  }
}
