import { connect, type Socket } from 'node:net';
import { Worker } from 'node:worker_threads';

const backlog = 1;

// Script of a listener whose thread never accepts.
const listener = `
  const { createServer } = require('node:net');
  const { parentPort } = require('node:worker_threads');
  const server = createServer().listen({ port: 0, host: '127.0.0.1', backlog: ${backlog} }, () => {
    parentPort.postMessage(server.address().port);
    setImmediate(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0));
  });
`;

/**
 * A loopback address that drops packets like a lost node: its accept queue is full, so Linux drops further SYNs
 * (listen(2); tcp(7), tcp_abort_on_overflow = 0).
 */
export class BlackHole {
  readonly address: string;
  readonly #worker: Worker;
  readonly #sockets: Socket[];

  private constructor(worker: Worker, sockets: Socket[], address: string) {
    this.#worker = worker;
    this.#sockets = sockets;
    this.address = address;
  }

  static async start(): Promise<BlackHole> {
    const worker = new Worker(listener, { eval: true });
    const port = await new Promise<number>((done, failed) => worker.once('message', done).once('error', failed));
    const sockets: Socket[] = [];
    // Linux queues one connection more than the backlog.
    for (let i = 0; i <= backlog; i++) {
      const socket = connect(port, '127.0.0.1').on('error', () => undefined);
      sockets.push(socket);
      await new Promise((done) => socket.once('connect', done));
    }
    return new BlackHole(worker, sockets, `127.0.0.1:${port}`);
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await this.#worker.terminate();
  }
}
