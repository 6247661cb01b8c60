import { stat } from 'node:fs/promises';
import { Server } from '@grpc/grpc-js';
import { type Clock, HearthError, type Logger, longestSocketPath, systemClock } from '@hearth/common';
import { bindSocket } from '@hearth/common/grpc';

export interface SocketServerOptions {
  socket: string;
  services: (server: Server) => void;
  /** The pause between two checks of the socket file, ms. */
  watchMs: number;
  logger: Logger;
  clock?: Clock;
}

/** gRPC on a Unix socket that only its owner may open. Creates a deleted socket file again. */
export class SocketServer {
  readonly #options: Required<SocketServerOptions>;
  #server: Server | undefined;
  #inode: number | undefined;
  #cancel: (() => void) | undefined;
  #turn: Promise<void> = Promise.resolve();

  constructor(options: SocketServerOptions) {
    this.#options = { clock: systemClock, ...options };
  }

  /** Throws `InUse` when another process answers there, `InvalidArgument` for a long path, `IoError`. */
  async listen(): Promise<void> {
    const { socket, watchMs, clock } = this.#options;
    if (Buffer.byteLength(socket) > longestSocketPath) {
      throw new HearthError('InvalidArgument', `the socket path ${socket} is longer than ${longestSocketPath} bytes`);
    }
    await this.#bind();
    this.#cancel = clock.every(watchMs, () => {
      this.#turn = this.#turn.then(() => this.#check());
    });
  }

  get listening(): boolean {
    return this.#inode !== undefined;
  }

  /** Creates the socket again, which watchers of its directory notice. */
  async renew(): Promise<void> {
    this.#turn = this.#turn.then(() => this.#renew());
    await this.#turn;
  }

  /** Removes the socket and waits up to `deadlineMs` for running calls. */
  async close(deadlineMs: number): Promise<void> {
    this.#cancel?.();
    await this.#turn;
    const server = this.#server;
    this.#server = undefined;
    this.#inode = undefined;
    if (server === undefined) return;
    const cancel = this.#options.clock.schedule(deadlineMs, () => server.forceShutdown());
    await new Promise<void>((resolve) => server.tryShutdown(() => resolve()));
    cancel();
  }

  async #check(): Promise<void> {
    const { socket, logger } = this.#options;
    if ((await inodeOf(socket)) === this.#inode && this.#inode !== undefined) return;
    logger.warn('a socket file was deleted; creating it again', { socket });
    await this.#renew();
  }

  async #renew(): Promise<void> {
    const { socket, logger } = this.#options;
    // Closing a listener unlinks its path, so the old one closes first.
    this.#server?.tryShutdown(() => undefined);
    this.#server = undefined;
    this.#inode = undefined;
    try {
      await this.#bind();
    } catch (thrown) {
      logger.error('failed to create a socket again; retrying', { socket, error: HearthError.from(thrown) });
    }
  }

  async #bind(): Promise<void> {
    const { socket, services } = this.#options;
    const server = new Server({ 'grpc.max_receive_message_length': 4 << 20 });
    services(server);
    await bindSocket(server, socket, 'set another path');
    this.#server = server;
    this.#inode = await inodeOf(socket);
  }
}

async function inodeOf(path: string): Promise<number | undefined> {
  return await stat(path).then(
    (found) => found.ino,
    () => undefined,
  );
}
