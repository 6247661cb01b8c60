import { chmod, mkdir, unlink } from 'node:fs/promises';
import { dirname } from 'node:path';
import { type Server, ServerCredentials } from '@grpc/grpc-js';
import { HearthError } from '../error.ts';
import { knock } from '../unix_socket.ts';

const knockMs = 2_000;

/** Resolves with the bound port (0 for Unix sockets). Rejects with gRPC's error. */
export async function bind(server: Server, address: string, credentials: ServerCredentials): Promise<number> {
  return await new Promise((resolve, reject) => {
    server.bindAsync(address, credentials, (error, port) => (error === null ? resolve(port) : reject(error)));
  });
}

/**
 * Creates the socket's folder, replaces a stale socket of a killed process and serves on a Unix socket of mode 0600.
 * Throws `InUse` when a process answers on the socket, else `PermissionDenied` or `IoError`; `advice` ends the error
 * message.
 */
export async function bindSocket(server: Server, path: string, advice: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await removeStale(path, advice);
  // The umask determines the mode between bind() and chmod(); other users must not connect in that window.
  const mask = process.umask(0o177);
  try {
    await bind(server, `unix:${path}`, ServerCredentials.createInsecure());
  } catch (thrown) {
    throw new HearthError('IoError', `cannot listen on ${path} (${(thrown as Error).message}); ${advice}`);
  } finally {
    process.umask(mask);
  }
  await chmod(path, 0o600);
}

async function removeStale(path: string, advice: string): Promise<void> {
  if ((await knock(path, knockMs)) === undefined) {
    throw new HearthError('InUse', `another process listens on ${path}; stop it or ${advice}`);
  }
  await unlink(path).catch((thrown: NodeJS.ErrnoException) => {
    if (thrown.code === 'ENOENT') return;
    throw new HearthError('PermissionDenied', `cannot remove the stale socket ${path} (${thrown.message}); remove it`);
  });
}
