import { isIP } from 'node:net';
import { HearthError } from '@hearth/common';

/** A TCP address; listening on port 0 takes a free port. */
export interface Endpoint {
  host: string;
  port: number;
}

/**
 * Parses `10.0.0.5:7527`, `[fd00::1]:7527`, or `10.0.0.5` with the default port. Accepts IP addresses and `localhost`
 * only.
 */
export function endpointWithPort(defaultPort: number): (value: unknown) => Endpoint | undefined {
  return (value) => {
    if (typeof value !== 'string') return undefined;
    const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]]+))(?::(\d{1,5}))?$/.exec(value.trim());
    const host = match?.[1] ?? match?.[2] ?? (isIP(value.trim()) === 6 ? value.trim() : '');
    const port = match?.[3] === undefined ? defaultPort : Number(match[3]);
    if ((isIP(host) === 0 && host !== 'localhost') || port > 65_535) return undefined;
    return { host: host === 'localhost' ? '127.0.0.1' : host, port };
  };
}

export function formatEndpoint(endpoint: Endpoint): string {
  return `${endpoint.host.includes(':') ? `[${endpoint.host}]` : endpoint.host}:${endpoint.port}`;
}

/** `10.0.0.0/8` unchanged, `10.0.0.1` as `10.0.0.1/32`. */
export function parseNetwork(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined;
  const [address = '', length, ...rest] = value.trim().split('/');
  const longest = { 4: 32, 6: 128 }[isIP(address)];
  if (longest === undefined || rest.length > 0) return undefined;
  const bits = length === undefined ? longest : /^\d{1,3}$/.test(length) ? Number(length) : -1;
  return bits >= 0 && bits <= longest ? `${address}/${bits}` : undefined;
}

/** The error of an address of the setting `NAME.listen` that cannot be bound: `InUse` or `IoError`. */
export function listenError(name: 'health' | 'wire', endpoint: Endpoint, error: NodeJS.ErrnoException): HearthError {
  const place = `the ${name} address ${formatEndpoint(endpoint)}`;
  if (error.code === 'EADDRINUSE') {
    return new HearthError(
      'InUse',
      `${place} is in use by another program; stop it or set ${name}.listen to another port`,
    );
  }
  return new HearthError(
    'IoError',
    `${place} cannot be listened on (${error.message}); set ${name}.listen to an address of this machine`,
  );
}
