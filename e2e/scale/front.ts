import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A Service in small: a connection goes to the next of the ports that accepts it. */
export class Front {
  readonly #server = createServer((socket) => this.#accept(socket));
  #ports: readonly number[] = [];
  #next = 0;

  static async start(): Promise<Front> {
    const front = new Front();
    await new Promise<void>((resolve) => front.#server.listen(0, 'localhost', resolve));
    return front;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  lead(...ports: number[]): void {
    this.#ports = ports;
  }

  close(): void {
    this.#server.close();
  }

  #accept(socket: Socket, tries = this.#ports.length): void {
    socket.on('error', () => socket.destroy());
    const port = this.#ports[this.#next++ % this.#ports.length];
    if (tries === 0 || port === undefined) {
      socket.destroy();
      return;
    }
    const target = connect(port, 'localhost');
    const refused = () => this.#accept(socket, tries - 1);
    target.once('error', refused);
    target.once('connect', () => {
      target.off('error', refused).on('error', () => target.destroy());
      target.once('close', () => socket.destroy());
      socket.once('close', () => target.destroy());
      socket.pipe(target).pipe(socket);
    });
  }
}
