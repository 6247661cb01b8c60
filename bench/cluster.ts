import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { root, run } from './command.ts';
import { commandAt, type Place } from './network.ts';

const holderOf = (release: string): string => join(release, 'build/release/holder/hearth-holder');
const hearthOf = (release: string): string => join(release, 'cli/bin/hearth');

export interface ClusterOptions {
  /** The checkout, built, whose programs run; this one unless given. */
  release?: string;
  /** Of each agent; all are on loopback unless given. */
  placeOf?: ((node: string) => Place) | undefined;
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('the kernel gives no free port');
  return address.port;
}

/** Whether something is mounted there; /proc answers also when the mount hangs. */
const mounted = (target: string): boolean =>
  readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .some((line) => line.split(' ')[4] === target);

/** Agents and a mount holder of our own below one folder: on loopback, or each agent in a place of its own. */
export class Cluster {
  readonly directory: string;
  readonly nodes: string[];
  readonly #placeOf: ClusterOptions['placeOf'];
  readonly #release: string;
  readonly #children = new Map<string, ChildProcess>();
  readonly #mounts = new Set<string>();
  readonly #killAtExit = (): void => {
    for (const child of this.#children.values()) child.kill('SIGKILL');
  };

  private constructor(directory: string, nodes: string[], { placeOf, release = root }: ClusterOptions) {
    this.directory = directory;
    this.nodes = nodes;
    this.#placeOf = placeOf;
    this.#release = release;
  }

  static async start(
    directory: string,
    nodes: string[],
    budgetBytes: number,
    options: ClusterOptions = {},
  ): Promise<Cluster> {
    mkdirSync(directory, { recursive: true });
    const cluster = new Cluster(directory, nodes, options);
    process.once('exit', cluster.#killAtExit);
    writeFileSync(join(directory, 'secret'), 'a secret of this benchmark alone\n', { mode: 0o600 });
    try {
      cluster.#spawn('holder', holderOf(cluster.#release), ['--socket', join(directory, 'holder.sock')]);
      await cluster.#until('holder', () => existsSync(join(directory, 'holder.sock')));
      for (const node of nodes) await cluster.#startAgent(node, budgetBytes);
      for (const node of nodes) await cluster.#until(node, () => existsSync(cluster.socket(node)));
      await cluster.#allReady();
    } catch (error) {
      await cluster.stop();
      throw error;
    }
    return cluster;
  }

  socket(node: string): string {
    return join(this.directory, `${node}.sock`);
  }

  /** Runs the command line against a node's agent; the first node's by default. */
  hearth(args: string[], node = this.nodes[0] ?? ''): Promise<string> {
    return run(hearthOf(this.#release), ['--socket', this.socket(node), '--timeout', '300', ...args]);
  }

  async mount(dataset: string, dataPath: 'view' | 'fuse' | 'daemon'): Promise<string> {
    const target = join(this.directory, `mnt-${dataset}-${dataPath}`);
    mkdirSync(target, { recursive: true });
    this.#mounts.add(target);
    await this.hearth(['mount', dataset, target, '--data-path', dataPath]);
    return target;
  }

  async unmount(target: string): Promise<void> {
    await this.hearth(['umount', target]);
    this.#mounts.delete(target);
  }

  /** Does something while the mount holder is stopped, as by a machine that has no time for it. */
  async withoutHolder<T>(work: () => Promise<T>): Promise<T> {
    const holder = this.#children.get('holder');
    if (!holder?.kill('SIGSTOP')) throw new Error('the mount holder does not run');
    try {
      return await work();
    } finally {
      holder.kill('SIGCONT');
    }
  }

  /** Drops a dataset's bytes on all nodes; an error when something stays, for then nothing would be cold. */
  async evict(dataset: string): Promise<void> {
    const deadline = Date.now() + 10_000;
    for (;;) {
      await this.hearth(['evict', dataset]);
      const status = JSON.parse(await this.hearth(['--json', 'status'])) as Status;
      const left = await this.#resident(dataset, status);
      if (left === 0) return;
      if (Date.now() > deadline) throw new Error(`${left} bytes of ${dataset} stay after it was evicted`);
      await sleep(200);
    }
  }

  /** MiB of an agent. */
  residentMemory(node: string): number {
    const pid = this.#children.get(node)?.pid;
    const kib = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
    return Number(kib) / 1024;
  }

  /** Unmounts and ends everything that it started; never throws, because it is the way out. */
  async stop(): Promise<void> {
    for (const target of this.#mounts) {
      if (mounted(target)) await run('umount', ['--no-canonicalize', '--lazy', target]).catch(console.error);
    }
    const order = [...this.#children].reverse(); // the holder, which came first, last
    for (const [, child] of order) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      child.kill('SIGTERM');
      const ended = once(child, 'exit');
      if ((await Promise.race([ended, sleep(15_000)])) === undefined) child.kill('SIGKILL');
    }
    process.off('exit', this.#killAtExit);
    if ([...this.#mounts].some(mounted)) console.error(`a mount below ${this.directory} is left; unmount it`);
    else rmSync(this.directory, { recursive: true, force: true });
  }

  async #startAgent(node: string, budgetBytes: number): Promise<void> {
    const path = (name: string): string => join(this.directory, name);
    const place = this.#placeOf?.(node);
    const args = [
      ...['agent', '--node', node, '--cluster', 'bench', '--store', `sqlite:${path('store.sqlite')}`],
      ...['--secret-file', path('secret'), '--wire-listen', `${place?.address ?? '127.0.0.1'}:${await freePort()}`],
      ...['--cache-directories', `${path(`cache-${node}`)}=${budgetBytes}:1GiB`],
      ...['--control-socket', this.socket(node), '--health-listen', `127.0.0.1:${await freePort()}`],
      ...['--holder-socket', path('holder.sock'), '--origins-allow-private', 'yes', '--log-level', 'warn'],
    ];
    this.#spawn(node, ...commandAt(place, hearthOf(this.#release), args));
  }

  #spawn(name: string, program: string, args: string[]): void {
    const log = openSync(join(this.directory, `${name}.log`), 'w');
    this.#children.set(name, spawn(program, args, { stdio: ['ignore', log, log] }));
    closeSync(log);
  }

  async #until(name: string, holds: () => boolean): Promise<void> {
    const child = this.#children.get(name);
    const deadline = Date.now() + 60_000;
    while (!holds()) {
      if (child?.exitCode !== null || Date.now() > deadline) {
        throw new Error(`${name} did not start: ${readFileSync(join(this.directory, `${name}.log`), 'utf8')}`);
      }
      await sleep(50);
    }
  }

  async #allReady(): Promise<void> {
    const deadline = Date.now() + 30_000;
    for (;;) {
      const status = JSON.parse(await this.hearth(['--json', 'status'])) as Status;
      if (this.nodes.every((name) => status.nodes.some(({ node, ready }) => node === name && ready))) return;
      if (Date.now() > deadline) throw new Error('the agents do not see one another after 30 s');
      await sleep(200);
    }
  }

  async #resident(dataset: string, status: Status): Promise<number> {
    const about = status.datasets.find(({ name }) => name === dataset);
    return (about?.residency ?? []).reduce((sum, { residentBytes }) => sum + residentBytes, 0);
  }
}

interface Status {
  nodes: { node: string; ready: boolean }[];
  datasets: { name: string; residency: { residentBytes: number }[] }[];
}
