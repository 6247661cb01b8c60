import { execFileSync, spawnSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { run } from './command.ts';

/** Where a program runs: a network namespace, its address there, and what runs it there (and becomes it). */
export interface Place {
  namespace: string;
  address: string;
  launcher: readonly string[];
}

/** Bytes of frames since the link was made. */
export interface Carried {
  received: number;
  sent: number;
}

/** Of the names of namespaces; the process that made them follows. */
export const prefix = 'hearth-bench-';
/** The largest packet that the kernel hands over in one piece is 64 KiB: smaller bursts would cut it up. */
const burstBytes = 128 * 2 ** 10;
const queueBytes = 2 ** 20;

export const ip = (...args: string[]): Promise<string> => run('ip', args, 10_000);

/**
 * Network namespaces on one bridge, each connected by a link that is shaped in both directions. The bridge is in a
 * namespace too, so nothing is added to the machine's own network.
 */
export class Network {
  readonly #bitsPerSecond: number;
  readonly #places = new Map<string, Place>();
  readonly #namespaces: Namespaces;

  private constructor(bitsPerSecond: number, namespaces: Namespaces) {
    this.#bitsPerSecond = bitsPerSecond;
    this.#namespaces = namespaces;
  }

  static async create(names: string[], bitsPerSecond: number): Promise<Network> {
    const network = new Network(bitsPerSecond, await Namespaces.begin());
    await network.#namespaces.make(async () => {
      await ip('netns', 'add', hub());
      await ip('-n', hub(), 'link', 'add', 'bridge', 'type', 'bridge');
      await ip('-n', hub(), 'link', 'set', 'bridge', 'up');
      for (const name of names) await network.#connect(name);
    });
    return network;
  }

  place(name: string): Place {
    const place = this.#places.get(name);
    if (place === undefined) throw new Error(`no namespace was made for ${name}`);
    return place;
  }

  async carried(name: string): Promise<Carried> {
    const shown = await ip('-n', this.place(name).namespace, '-s', '-j', 'link', 'show', 'eth0');
    const [link] = JSON.parse(shown) as [{ stats64: { rx: { bytes: number }; tx: { bytes: number } } }];
    return { received: link.stats64.rx.bytes, sent: link.stats64.tx.bytes };
  }

  /** After the programs in it have ended. */
  async remove(): Promise<void> {
    await this.#namespaces.remove();
  }

  async #connect(name: string): Promise<void> {
    const namespace = `${prefix}${process.pid}-${name}`;
    const number = this.#places.size + 1;
    const launcher = ['ip', 'netns', 'exec', namespace];
    const place: Place = { namespace, address: `10.251.0.${number}`, launcher };
    const port = `port${number}`;
    await ip('netns', 'add', namespace);
    const ends = ['eth0', 'netns', namespace, 'type', 'veth', 'peer', 'name', port, 'netns', hub()];
    await ip('link', 'add', ...ends);
    await ip('-n', hub(), 'link', 'set', port, 'master', 'bridge', 'up');
    await ip('-n', namespace, 'address', 'add', `${place.address}/24`, 'dev', 'eth0');
    await ip('-n', namespace, 'link', 'set', 'eth0', 'up');
    await ip('-n', namespace, 'link', 'set', 'lo', 'up');
    await shape(namespace, 'eth0', this.#bitsPerSecond);
    await shape(hub(), port, this.#bitsPerSecond);
    this.#places.set(name, place);
  }
}

/** Limits what leaves by the device. */
export async function shape(namespace: string, device: string, bitsPerSecond: number): Promise<void> {
  const bucket = ['rate', `${bitsPerSecond}bit`, 'burst', String(burstBytes), 'limit', String(queueBytes)];
  await run('tc', ['-n', namespace, 'qdisc', 'add', 'dev', device, 'root', 'tbf', ...bucket], 10_000);
}

const hub = (): string => `${prefix}${process.pid}-hub`;

/** The namespaces of this process, which go with it at the latest. One at a time. */
export class Namespaces {
  readonly #removeAtExit = (): void => {
    for (const namespace of namespaces(process.pid)) spawnSync('ip', ['netns', 'delete', namespace]);
  };

  /** First removes the leftovers of benchmarks that were killed. */
  static async begin(): Promise<Namespaces> {
    await removeForgotten();
    const begun = new Namespaces();
    process.once('exit', begun.#removeAtExit);
    return begun;
  }

  /** Adds some; all are removed when that fails. */
  async make(add: () => Promise<void>): Promise<void> {
    try {
      await add();
    } catch (error) {
      await this.remove();
      throw error;
    }
  }

  async remove(): Promise<void> {
    process.off('exit', this.#removeAtExit);
    for (const namespace of namespaces(process.pid)) await ip('netns', 'delete', namespace);
  }
}

/** Names of namespaces that a process made; of all processes when none is given. */
function namespaces(pid?: number): string[] {
  const listed = execFileSync('ip', ['netns', 'list'], { encoding: 'utf8' });
  const names = listed.split('\n').map((line) => line.split(' ')[0] ?? '');
  return names.filter((name) => name.startsWith(pid === undefined ? prefix : `${prefix}${pid}-`));
}

/** Removes what a benchmark left that was killed. */
async function removeForgotten(): Promise<void> {
  for (const namespace of namespaces()) {
    const pid = Number(namespace.slice(prefix.length).split('-')[0]);
    if (!alive(pid)) await ip('netns', 'delete', namespace);
  }
}

function alive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Waits until nothing has passed a link for a moment. */
export async function quiet(network: Network, name: string): Promise<void> {
  for (let before = -1, tries = 0; tries < 50; ++tries) {
    const { sent } = await network.carried(name);
    if (sent - before < 4096) return;
    before = sent;
    await sleep(100);
  }
}
