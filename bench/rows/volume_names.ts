import { readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { Cluster } from '../cluster.ts';
import { root, run } from '../command.ts';
import type { Group, Surroundings } from '../plan.ts';
import { dropNames } from '../reader.ts';

const writer = join(root, 'build/release/bench/hearth_bench_volume_log');
const many = 5_000_000;
const few = 5_000;
/** Each name once, so that the kernel answers none from its own cache. */
const stats = few;
/** A run takes a second, and the slowest of a hundred stats meets whatever else the machine does. */
const times = 4;

/** Microseconds within which 99 of 100 stats end, of so many names spread over `count`. */
function slowest(folder: string, count: number, name: (index: number) => string, expected: boolean): number {
  const taken: number[] = [];
  for (let index = 0; index < stats; index++) {
    const path = join(folder, name((index * 3_999_971) % count));
    const begun = process.hrtime.bigint();
    const found = statSync(path, { throwIfNoEntry: false });
    taken.push(Number(process.hrtime.bigint() - begun) / 1e3);
    if ((found !== undefined) !== expected) throw new Error(`${path} is ${expected ? 'absent' : 'there'}`);
  }
  return taken.sort((one, other) => one - other)[Math.floor(0.99 * stats)] ?? Number.NaN;
}

/** The store's id in the head of a log (native/volume/log_segment.h). */
function storeOf(log: string): string {
  const segment = readdirSync(log).find((name) => name.startsWith('log-')) ?? '';
  return readFileSync(join(log, segment)).subarray(16, 32).toString('hex');
}

/** Volumes whose logs were written by a program, each with so many empty files `file0`, `file1` and so on; mounted. */
async function madeVolumes(cluster: Cluster, counts: readonly number[]): Promise<string[]> {
  const [node = ''] = cluster.nodes;
  const names = counts.map((count) => `files-${count}`);
  const logs: string[] = [];
  for (const name of names) {
    const limits = ['--files', String(2 * many), '--deadline', '5m'];
    const { id } = JSON.parse(await cluster.hearth(['--json', 'volume', 'create', name, ...limits])) as { id: string };
    await cluster.volumeIsReady(name);
    logs.push(join(cluster.cacheOf(node), 'volumes', id, 'log'));
  }
  await cluster.withoutAgent(node, async () => {
    for (const [index, log] of logs.entries()) {
      const store = storeOf(log);
      const volume = basename(dirname(log));
      rmSync(log, { recursive: true });
      await run(writer, [log, store, volume, String(counts[index])]);
    }
  });
  const mounts: string[] = [];
  for (const name of names) {
    await cluster.volumeIsReady(name);
    const mount = await cluster.mountBest(`volume:${name}`);
    statSync(join(mount, 'file0')); // waits until the leader has loaded the names
    mounts.push(mount);
  }
  return mounts;
}

/** Names of a scratch volume that holds a thousand times as many as another one. */
export const volumeNames: Group = {
  ids: ['volume-stat'],
  ownOnly: true,
  async measure(around: Surroundings): Promise<void> {
    const { directory, release } = around;
    const cluster = await Cluster.start(join(directory, 'names'), ['leader'], 2 ** 30, { release });
    try {
      const [fewNames = '', manyNames = ''] = await madeVolumes(cluster, [few, many]);
      for (const present of [false, true]) {
        const side = (folder: string, count: number) => async (round: number) => {
          dropNames();
          return slowest(folder, count, (index) => (present ? `file${index}` : `absent${round}-${index}`), present);
        };
        await around.row({
          id: present ? 'volume-stat-present' : 'volume-stat-absent',
          what: `stat of ${present ? 'names' : 'absent names'} in a scratch volume of ${many} files, 99th percentile, against one of ${few}`,
          unit: 'us',
          better: 'less',
          target: 0.5,
          times,
          sides: { value: side(manyNames, many), baseline: side(fewNames, few) },
        });
      }
    } finally {
      await cluster.stop();
    }
  },
};
