import { createServer, type Server, type Socket } from 'node:net';

/** Accepts connections and never answers, as a machine whose kernel runs and nothing else. */
export class SilentListener {
  readonly address: string;
  /** Connections that were made until now. */
  accepted = 0;
  readonly #server: Server;
  readonly #sockets: Set<Socket>;

  private constructor(server: Server, sockets: Set<Socket>, address: string) {
    this.#server = server;
    this.#sockets = sockets;
    this.address = address;
  }

  /** `127.0.0.1:PORT`; any free port when none is given. */
  static async start(port = 0): Promise<SilentListener> {
    const sockets = new Set<Socket>();
    let listener: SilentListener | undefined;
    const server = createServer((socket) => {
      if (listener !== undefined) listener.accepted++;
      sockets.add(socket);
      socket.on('error', () => undefined).once('close', () => sockets.delete(socket));
      // Whose end would not be seen otherwise.
      socket.resume();
    }).listen(port, '127.0.0.1');
    await new Promise((done, failed) => server.once('listening', done).once('error', failed));
    const { port: taken } = server.address() as { port: number };
    listener = new SilentListener(server, sockets, `127.0.0.1:${taken}`);
    return listener;
  }

  /** Connections that are open now. */
  get connections(): number {
    return this.#sockets.size;
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((done) => this.#server.close(done));
  }
}
