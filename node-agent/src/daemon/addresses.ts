import { BlockList, createServer, isIPv6 } from 'node:net';
import { type NetworkInterfaceInfo, networkInterfaces } from 'node:os';
import { HearthError, wirePort } from '@hearth/common';
import type { Address } from '@hearth/engine';
import { listenError } from '../config/index.ts';

/**
 * The addresses published to other agents: the configured ones, else the engine's listening addresses, where a wildcard
 * address stands for every address of this machine, loopback only if there is no other.
 */
export function advertisedAddresses(
  configured: readonly Address[],
  listening: readonly Address[],
  interfaces: NodeJS.Dict<NetworkInterfaceInfo[]> = networkInterfaces(),
): Address[] {
  if (configured.length > 0) return [...configured];
  return listening.flatMap(({ host, port }) => {
    if (host !== '0.0.0.0' && host !== '::') return [{ host, port }];
    const own = Object.values(interfaces)
      .flat()
      .filter((one) => one !== undefined)
      // A link-local IPv6 address is meaningless without the local interface's name.
      .filter((one) => !one.internal && (host === '::' || one.family === 'IPv4') && !/^fe80:/i.test(one.address));
    const addresses = own.map((one) => ({ host: one.address, port }));
    return addresses.length > 0 ? addresses : [{ host: isIPv6(host) ? '::1' : '127.0.0.1', port }];
  });
}

/**
 * The engine's listening addresses: the configured ones or, with networks, every address of this machine in one of
 * them. Throws `InvalidArgument` when no address lies in the networks.
 */
export function listeningAddresses(
  configured: readonly Address[],
  networks: readonly string[],
  interfaces: NodeJS.Dict<NetworkInterfaceInfo[]> = networkInterfaces(),
): Address[] {
  if (networks.length === 0) return [...configured];
  const wanted = new BlockList();
  for (const network of networks) {
    const [address = '', bits] = network.split('/');
    wanted.addSubnet(address, Number(bits), isIPv6(address) ? 'ipv6' : 'ipv4');
  }
  const port = configured[0]?.port ?? wirePort;
  const chosen = Object.values(interfaces)
    .flat()
    .filter((one) => one !== undefined)
    .filter((one) => wanted.check(one.address, one.family === 'IPv6' ? 'ipv6' : 'ipv4'))
    .map((one) => ({ host: one.address, port }));
  if (chosen.length > 0) return chosen;
  throw new HearthError(
    'InvalidArgument',
    `no address of this machine lies in wire.networks (${networks.join(', ')}); name the networks of its interfaces, or none to use wire.listen`,
  );
}

/**
 * Throws `InUse` or `IoError` when the wire protocol cannot be served on an address. The engine binds only after it has
 * opened the cache, perhaps long after the start; this check reports misconfiguration at once.
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
