import { spawnSync } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DaemonProcess, freePorts, output } from '@hearth/common/testing';
import { Cluster } from '../cluster.ts';
import { root } from '../command.ts';
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

async function measured(program: string, words: string[], environment: Record<string, string> = {}): Promise<Speed> {
  // The lines of Mooncake's threads come before.
  const lines = await output(program, [script, ...words], { timeoutMs: 600_000, environment });
  const said = lines.trim().split('\n').at(-1) ?? '';
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

/** Each run has a volume of its own, as the blocks of a run have the keys of the others. */
async function keys(cluster: Cluster, index: number): Promise<Speed> {
  const volume = `keys-${index}`;
  await cluster.hearth(['volume', 'create', volume]);
  await cluster.volumeIsReady(volume);
  await dropPageCache();
  try {
    const environment = {
      PYTHONPATH: join(root, 'build/release/client_tests/pygd2fs'),
      HEARTH_CLUSTER: 'bench',
      HEARTH_TOKEN: await cluster.volumeToken(volume),
    };
    const addresses = nodes.map((node) => cluster.clientAddressOf(node));
    return await measured('python3', ['keys', volume, ...addresses], environment);
  } finally {
    await cluster.hearth(['volume', 'rm', volume]);
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
  ids: ['kv-blocks', 'kv-keys'],
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
      await rows(around, mounts, cluster);
    } finally {
      await cluster.stop();
    }
  },
};

async function rows(around: Surroundings, mounts: string[], cluster: Cluster): Promise<void> {
  let index = 0;
  const theirs = isInstalled('redis-server') ? oncePerRun(redis) : undefined;
  const beside = hasMooncake() ? oncePerRun(mooncake) : undefined;
  const work = '70 % reads, 64 in flight';
  for (const [group, where, ours] of [
    ['kv-blocks', 'in a scratch volume through three mounts', oncePerRun(() => files(mounts, index++))] as const,
    ['kv-keys', 'under keys, through libgd2fs and three agents', oncePerRun(() => keys(cluster, index++))] as const,
  ]) {
    for (const [suffix, part, unit, better] of [
      ['', 'gibPerSecond', 'GiB/s', 'more'] as const,
      ['-p99', 'p99Ms', 'ms', 'less'] as const,
    ]) {
      await around.row({
        id: `${group}${suffix}`,
        what: `blocks of 2 MiB ${where}, ${work}${part === 'p99Ms' ? ', 99th percentile' : ''}; three servers of redis`,
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
}
