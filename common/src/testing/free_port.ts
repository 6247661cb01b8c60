import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/**
 * Below the ports that the kernel gives to outgoing connections (from 32768 on) and that Kubernetes gives to services
 * (from 30000 on): one of these could be taken by anybody between now and the moment at which it is listened on.
 */
const [from, to] = [20_000, 30_000];
/**
 * This process's half of the ports: HEARTH_TEST_PORTS is 0 and 1 in two processes that run side by side, each of which
 * knows only the ports it has given itself. Without the variable all ports are this process's.
 */
const half = process.env.HEARTH_TEST_PORTS;
const count = half ? (to - from) / 2 : to - from;
const first = half === '1' ? from + count : from;
const tries = 1_000;

const given = new Set<number>();

/** A port of `host` on which nothing listens; each is given once. */
export async function freePort(host = '127.0.0.1'): Promise<number> {
  for (let left = tries; left > 0; left--) {
    const port = first + randomInt(count);
    if (given.has(port) || !(await isFree(host, port))) continue;
    given.add(port);
    return port;
  }
  throw new Error(`no port of ${host} between ${first} and ${first + count} is free`);
}

/** Several of loopback. */
export async function freePorts(wanted: number): Promise<number[]> {
  const ports: number[] = [];
  while (ports.length < wanted) ports.push(await freePort());
  return ports;
}

function isFree(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, host, () => server.close(() => resolve(true)));
  });
}
