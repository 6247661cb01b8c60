import { chmod, mkdir, stat, unlink } from 'node:fs/promises';
import { dirname } from 'node:path';
import { Server, ServerCredentials } from '@grpc/grpc-js';
import { HearthError, type Logger } from '@hearth/common';
import { knock } from '../agent/index.ts';

export interface SocketServerOptions {
  /** Path of the Unix socket; its folder is made. */
  socket: string;
  /** Adds the services to a new server: called again whenever the socket has to be made again. */
  services: (server: Server) => void;
  /** Milliseconds between two looks whether the socket is still there. */
  watchMs: number;
  logger: Logger;
}

/** sun_path of unix(7) without its NUL. */
const longestSocketPath = 107;

/**
 * gRPC on a Unix socket that only its owner may open. When the socket's file vanishes, as when a person cleans the
 * kubelet's folders, it is made again: an unlinked socket reaches no client and no client is notified.
 */
export class SocketServer {
  readonly #options: SocketServerOptions;
  #server: Server | undefined;
  #inode: number | undefined;
  #timer: NodeJS.Timeout | undefined;
  #turn: Promise<void> = Promise.resolve();

  constructor(options: SocketServerOptions) {
    this.#options = options;
  }

  /** `InUse` when another process answers there, `InvalidArgument` for a path that is too long, `IoError`. */
  async listen(): Promise<void> {
    const { socket, watchMs } = this.#options;
    if (Buffer.byteLength(socket) > longestSocketPath) {
      throw new HearthError('InvalidArgument', `the socket path ${socket} is longer than ${longestSocketPath} bytes`);
    }
    await this.#bind();
    this.#timer = setInterval(() => {
      this.#turn = this.#turn.then(() => this.#look());
    }, watchMs);
    this.#timer.unref();
  }

  get listening(): boolean {
    return this.#inode !== undefined;
  }

  /** Makes the socket again, which whoever watches its folder notices. */
  async renew(): Promise<void> {
    this.#turn = this.#turn.then(() => this.#renew());
    await this.#turn;
  }

  /** Removes the socket, and waits for calls under way, at most for the milliseconds given. */
  async close(deadlineMs: number): Promise<void> {
    clearInterval(this.#timer);
    await this.#turn;
    const server = this.#server;
    this.#server = undefined;
    this.#inode = undefined;
    if (server === undefined) return;
    const timer = setTimeout(() => server.forceShutdown(), deadlineMs);
    await new Promise<void>((resolve) => server.tryShutdown(() => resolve()));
    clearTimeout(timer);
  }

  async #look(): Promise<void> {
    const { socket, logger } = this.#options;
    if ((await inodeOf(socket)) === this.#inode && this.#inode !== undefined) return;
    logger.warn('a socket is gone and is made again', { socket });
    await this.#renew();
  }

  async #renew(): Promise<void> {
    const { socket, logger } = this.#options;
    // Closing a listener unlinks its path, so the old one goes before the new one is made.
    this.#server?.tryShutdown(() => undefined);
    this.#server = undefined;
    this.#inode = undefined;
    try {
      await this.#bind();
    } catch (thrown) {
      logger.error('a socket could not be made again; retrying', { socket, error: HearthError.from(thrown) });
    }
  }

  async #bind(): Promise<void> {
    const { socket, services } = this.#options;
    await mkdir(dirname(socket), { recursive: true });
    await removeStale(socket);
    const server = new Server({ 'grpc.max_receive_message_length': 4 << 20 });
    services(server);
    // Between bind and chmod the mode is what the mask leaves: no other user may slip in.
    const mask = process.umask(0o177);
    try {
      await bind(server, socket);
    } finally {
      process.umask(mask);
    }
    await chmod(socket, 0o600);
    this.#server = server;
    this.#inode = await inodeOf(socket);
  }
}

async function bind(server: Server, socket: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(`unix:${socket}`, ServerCredentials.createInsecure(), (error) => {
      if (error === null) resolve();
      else
        reject(new HearthError('IoError', `no socket can be made at ${socket} (${error.message}); check its folder`));
    });
  });
}

/** A socket that no process answers is left from a process that was killed. */
async function removeStale(socket: string): Promise<void> {
  const absent = await knock(socket);
  if (absent === undefined) {
    throw new HearthError('InUse', `another process answers at ${socket}; end it, or set another path`);
  }
  if (absent !== 'ENOENT') await unlink(socket);
}

async function inodeOf(path: string): Promise<number | undefined> {
  return await stat(path).then(
    (found) => found.ino,
    () => undefined,
  );
}
