import { createServer } from 'node:net';
import { HearthError } from '@hearth/common';
import type { Address } from '@hearth/engine';
import { formatEndpoint } from '../config/index.ts';

/**
 * `InUse` or `IoError` when the wire protocol cannot be served on one of the addresses. The engine listens there after
 * it has opened the cache, which may be long after the start; what a person must change is told at once.
 */
export async function checkWirePorts(addresses: readonly Address[]): Promise<void> {
  for (const address of addresses) await listenOnce(address);
}

async function listenOnce(address: Address): Promise<void> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => reject(listenError(address, error)));
    server.listen({ ...address, exclusive: true }, resolve);
  });
  await new Promise((resolve) => server.close(resolve));
}

function listenError(address: Address, error: NodeJS.ErrnoException): HearthError {
  const place = formatEndpoint(address);
  if (error.code === 'EADDRINUSE') {
    return new HearthError(
      'InUse',
      `the wire address ${place} is in use by another program; stop it or set wire.listen to another port`,
    );
  }
  return new HearthError(
    'IoError',
    `the wire protocol cannot be served on ${place} (${error.message}); set wire.listen to addresses of this machine`,
  );
}
