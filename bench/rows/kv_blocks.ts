import { spawnSync } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DaemonProcess, freePorts } from '@hearth/common/testing';
import { Cluster } from '../cluster.ts';
import { root, run } from '../command.ts';
import { oncePerRun } from '../once_per_run.ts';
import { isInstalled } from '../peers.ts';
import type { Group, Surroundings } from '../plan.ts';
import { dropPageCache } from '../reader.ts';

const script = join(root, 'bench/python/kv_blocks.py');
const python = process.env.BENCH_PYTHON ?? 'python3';
const nodes = ['a', 'b', 'c'];
const gib = 2 ** 30;

interface Speed {
  gibPerSecond: number;
  p99Ms: number;
}

async function measured(program: string, words: string[]): Promise<Speed> {
  // The lines of Mooncake's threads come before.
  const said = (await run(program, [script, ...words])).trim().split('\n').at(-1) ?? '';
  const [gibPerSecond = Number.NaN, p99Ms = Number.NaN] = said.split(' ').map(Number);
  return { gibPerSecond, p99Ms };
}

/** Each run has an empty folder of the volume, and nothing to write back. */
async function files(mounts: string[], index: number): Promise<Speed> {
  const folders = mounts.map((mount) => join(mount, `run-${index}`));
  const [folder = ''] = folders;
  mkdirSync(folder);
  await dropPageCache();
  try {
    return await measured('python3', ['files', ...folders]);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** A server for each node, without snapshots. */
async function redis(): Promise<Speed> {
  const ports = (await freePorts(nodes.length)).map(String);
  const servers = ports.map(
    (port) => new DaemonProcess('redis-server', ['--bind', '127.0.0.1', '--port', port, '--save', '']),
  );
  try {
    for (const server of servers) {
      await server.until('redis listens', () => server.said.stdout.includes('Ready to accept connections'));
    }
    return await measured('python3', ['redis', ...ports]);
  } finally {
    for (const server of servers) await server.end('SIGKILL');
  }
}

async function mooncake(): Promise<Speed> {
  const [port = 0, metrics = 0] = await freePorts(2);
  // Python's script for the master's binary.
  const ports = ['--rpc_address', '127.0.0.1', '--rpc_port', String(port), '--metrics_port', String(metrics)];
  const master = new DaemonProcess('unshare', ['--pid', '--fork', '--kill-child', masterProgram(), ...ports]);
  try {
    const connects = () => spawnSync('bash', ['-c', `exec 3<>/dev/tcp/127.0.0.1/${port}`]).status === 0;
    await master.until("Mooncake's master listens", connects);
    return await measured(python, ['mooncake', String(port)]);
  } finally {
    await master.end();
  }
}

/** Of the environment that BENCH_PYTHON is in. */
const masterProgram = (): string => (python.includes('/') ? join(python, '../mooncake_master') : 'mooncake_master');

const hasMooncake = (): boolean => spawnSync(python, ['-c', 'import mooncake.store']).status === 0;

/** A store of blocks of 2 MiB on three nodes, as engines use it for their KV caches. */
export const kvBlocks: Group = {
  ids: ['kv-blocks'],
  ownOnly: true,
  long: true,
  async measure(around: Surroundings): Promise<void> {
    const { directory, release } = around;
    const cluster = await Cluster.start(join(directory, 'blocks'), nodes, 16 * gib, { release });
    try {
      await cluster.hearth(['volume', 'create', 'blocks']);
      await cluster.volumeIsReady('blocks');
      const mounts: string[] = [];
      for (const node of nodes) mounts.push(await cluster.mountBest('volume:blocks', node));
      await rows(around, mounts);
    } finally {
      await cluster.stop();
    }
  },
};

async function rows(around: Surroundings, mounts: string[]): Promise<void> {
  let index = 0;
  const ours = oncePerRun(() => files(mounts, index++));
  const theirs = isInstalled('redis-server') ? oncePerRun(redis) : undefined;
  const beside = hasMooncake() ? oncePerRun(mooncake) : undefined;
  const what = 'blocks of 2 MiB in a scratch volume through three mounts, 70 % reads, 64 in flight';
  for (const [id, part, unit, better] of [
    ['kv-blocks', 'gibPerSecond', 'GiB/s', 'more'] as const,
    ['kv-blocks-p99', 'p99Ms', 'ms', 'less'] as const,
  ]) {
    await around.row({
      id,
      what: `${what}${part === 'p99Ms' ? ', 99th percentile' : ''}; three servers of redis`,
      unit,
      better,
      target: 1,
      sides: {
        value: async (round) => (await ours(round))[part],
        baseline: async (round) => (await theirs?.(round))?.[part] ?? Number.NaN,
      },
      beside: [{ name: 'Mooncake, TCP', measure: beside && (async (round: number) => (await beside(round))[part]) }],
    });
  }
}
