import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/**
 * Below the kernel's ephemeral ports (from 32768) and Kubernetes node ports (from 30000): another process could take
 * such a port between this choice and the bind.
 */
const [from, to] = [20_000, 30_000];
/**
 * This process's half of the ports: two processes that run side by side have HEARTH_TEST_PORTS 0 and 1, because each
 * knows only the ports it chose itself. Without the variable, all ports.
 */
const half = process.env.HEARTH_TEST_PORTS;
const count = half ? (to - from) / 2 : to - from;
const first = half === '1' ? from + count : from;
const tries = 1_000;

const given = new Set<number>();

/** A port of `host` without a listener; each port is returned once. */
export async function freePort(host = '127.0.0.1'): Promise<number> {
  for (let left = tries; left > 0; left--) {
    const port = first + randomInt(count);
    if (given.has(port) || !(await isFree(host, port))) continue;
    given.add(port);
    return port;
  }
  throw new Error(`no port of ${host} between ${first} and ${first + count} is free`);
}

/** Several ports of loopback. */
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
