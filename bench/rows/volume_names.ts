import { readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
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

/** A volume whose log was written by a program, with so many empty files `file0`, `file1` and so on; mounted. */
async function madeVolume(cluster: Cluster, name: string, count: number): Promise<string> {
  const [node = ''] = cluster.nodes;
  const limit = ['--files', String(2 * many), '--deadline', '5m'];
  const created = JSON.parse(await cluster.hearth(['--json', 'volume', 'create', name, ...limit])) as { id: string };
  await cluster.volumeIsReady(name);
  await cluster.withoutAgent(node, async () => {
    const log = join(cluster.cacheOf(node), 'volumes', created.id, 'log');
    const store = storeOf(log);
    rmSync(log, { recursive: true });
    await run(writer, [log, store, created.id, String(count)]);
  });
  await cluster.volumeIsReady(name);
  const mount = await cluster.mountBest(`volume:${name}`);
  statSync(join(mount, 'file0')); // waits until the leader has loaded the names
  return mount;
}

/** Names of a scratch volume that holds a thousand times as many as another one. */
export const volumeNames: Group = {
  ids: ['volume-stat'],
  ownOnly: true,
  async measure(around: Surroundings): Promise<void> {
    const { directory, release } = around;
    const cluster = await Cluster.start(join(directory, 'names'), ['leader'], 2 ** 30, { release });
    try {
      const folders = { few: await madeVolume(cluster, 'few', few), many: await madeVolume(cluster, 'many', many) };
      for (const present of [false, true]) {
        const side = (folder: string, count: number) => async (run: number) => {
          dropNames();
          return slowest(folder, count, (index) => (present ? `file${index}` : `absent${run}-${index}`), present);
        };
        await around.row({
          id: present ? 'volume-stat-present' : 'volume-stat-absent',
          what: `stat of ${present ? 'names' : 'absent names'} in a scratch volume of ${many} files, 99th percentile, against one of ${few}`,
          unit: 'us',
          better: 'less',
          target: 0.5,
          times,
          sides: { value: side(folders.many, many), baseline: side(folders.few, few) },
        });
      }
    } finally {
      await cluster.stop();
    }
  },
};
