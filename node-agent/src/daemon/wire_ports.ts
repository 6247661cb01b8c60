import { createServer } from 'node:net';
import type { Address } from '@hearth/engine';
import { listenError } from '../config/index.ts';

/**
 * `InUse` or `IoError` when the wire protocol cannot be served on one of the addresses. The engine listens there after
 * it has opened the cache, which may be long after the start; what a person must change is reported at once.
 */
export async function checkWirePorts(addresses: readonly Address[]): Promise<void> {
  for (const address of addresses) await listenOnce(address);
}

async function listenOnce(address: Address): Promise<void> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => reject(listenError('wire', address, error)));
    server.listen({ ...address, exclusive: true }, resolve);
  });
  await new Promise((resolve) => server.close(resolve));
}
