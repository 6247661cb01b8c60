import {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { until } from '@hearth/common/testing';
import { Cluster } from '../cluster.ts';
import { root, run } from '../command.ts';
import { makeSmallFiles } from '../data.ts';
import type { Group, Surroundings } from '../plan.ts';
import { dropPageCache, readFolder } from '../reader.ts';
import { median } from '../result.ts';

const writer = join(root, 'build/release/bench/hearth_bench_volume_log');
const mib = 2 ** 20;
const gib = 2 ** 30;
const files = 1_000;
const fileBytes = 2 * mib;
/** At a time, as cp(1) and Python's shutil write. */
const piece = Buffer.alloc(mib, 'hearth');
/** Single runs differ by the writing back of the page cache. */
const times = 3;

const secondsSince = (begun: bigint): number => Number(process.hrtime.bigint() - begun) / 1e9;

/** Seconds until the last write returned, and until the file was closed. */
function writeOne(path: string, bytes: number): { written: number; closed: number } {
  const begun = process.hrtime.bigint();
  const file = openSync(path, 'w');
  for (let at = 0; at < bytes; at += piece.length) writeSync(file, piece);
  const written = secondsSince(begun);
  closeSync(file);
  return { written, closed: secondsSince(begun) };
}

/** Thousands of files a second: create, write, close and rename, by one thread. */
function writeMany(folder: string): number {
  const begun = process.hrtime.bigint();
  for (let index = 0; index < files; index++) {
    const part = join(folder, `part-${index}`);
    writeOne(part, fileBytes);
    renameSync(part, join(folder, `file-${index}`));
  }
  return files / secondsSince(begun) / 1000;
}

/** Each side begins with a page cache that has nothing to write back, in a folder of its own, which it removes. */
async function settled<T>(parent: string, name: string, work: (folder: string) => Promise<T> | T): Promise<T> {
  const folder = join(parent, name);
  mkdirSync(folder);
  await dropPageCache();
  try {
    return await work(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const manyNames = 1_000_000;
const fewNames = 1_000;
const stats = 20_000;

/** Microseconds of a stat of an absent name, median. */
function medianOfStats(folder: string): number {
  const taken: number[] = [];
  for (let index = 0; index < stats; index++) {
    const path = join(folder, `absent${(index * 7919) % 1_000_003}`);
    const begun = process.hrtime.bigint();
    statSync(path, { throwIfNoEntry: false });
    taken.push(secondsSince(begun) * 1e6);
  }
  return median(taken);
}

async function isReady(cluster: Cluster, name: string): Promise<boolean> {
  const { state } = JSON.parse(await cluster.hearth(['--json', 'volume', 'show', name])) as { state: string };
  return state === 'Ready';
}

/** The store's id in the head of a log (native/volume/log_segment.h). */
function storeOf(log: string): string {
  const segment = readdirSync(log).find((name) => name.startsWith('log-')) ?? '';
  return readFileSync(join(log, segment)).subarray(16, 32).toString('hex');
}

/** A volume whose log was written by a program, with so many empty files; mounted. */
async function madeVolume(cluster: Cluster, name: string, count: number): Promise<string> {
  const [node = ''] = cluster.nodes;
  const created = JSON.parse(await cluster.hearth(['--json', 'volume', 'create', name])) as { id: string };
  await until('the volume has a leader', () => isReady(cluster, name));
  await cluster.withoutAgent(node, async () => {
    const log = join(cluster.cacheOf(node), 'volumes', created.id, 'log');
    const store = storeOf(log);
    rmSync(log, { recursive: true });
    await run(writer, [log, store, created.id, String(count)]);
  });
  await until('it has a leader again', () => isReady(cluster, name));
  return await cluster.mountBest(`volume:${name}`);
}

/** Writing into a scratch volume whose leader is on this node, and reading its files on another node. */
export const volumes: Group = {
  ids: ['volume-'],
  ownOnly: true,
  async measure(around: Surroundings): Promise<void> {
    const { directory, bytes, release } = around;
    const folder = join(directory, 'volumes');
    const native = join(folder, 'native');
    mkdirSync(native, { recursive: true });
    const cluster = await Cluster.start(folder, ['writer', 'reader'], 4 * (bytes + files * fileBytes), { release });
    try {
      await cluster.hearth(['volume', 'create', 'bench']);
      await until('the volume has a leader', () => isReady(cluster, 'bench'));
      const mount = await cluster.mountBest('volume:bench', 'writer');
      await rowsOfWriting(around, { mount, native });
      await rowOfReading(around, cluster, { mount, native });
      await rowOfNames(around, cluster);
    } finally {
      await cluster.stop();
    }
  },
};

async function rowOfNames(around: Surroundings, cluster: Cluster): Promise<void> {
  const few = await madeVolume(cluster, 'few', fewNames);
  const many = await madeVolume(cluster, 'many', manyNames);
  await around.row({
    id: 'volume-stat',
    what: `stat of an absent name in a scratch volume of ${manyNames} files, median, against one of ${fewNames}`,
    unit: 'us',
    better: 'less',
    target: 1 / 1.2,
    times,
    sides: { value: async () => medianOfStats(many), baseline: async () => medianOfStats(few) },
  });
}

async function rowsOfWriting(
  around: Surroundings,
  { mount, native }: { mount: string; native: string },
): Promise<void> {
  const { bytes } = around;
  for (const until of ['written', 'closed'] as const) {
    const side = (parent: string) => (run: number) =>
      settled(parent, `${until}-${run}`, (folder) => bytes / gib / writeOne(join(folder, 'file'), bytes)[until]);
    await around.row({
      id: until === 'written' ? 'volume-write' : 'volume-close',
      what: `sequential write of one file into a scratch volume until ${until === 'written' ? 'the last write returns' : 'it is closed, and so published'}, against ext4`,
      unit: 'GiB/s',
      better: 'more',
      target: until === 'written' ? 0.95 : 0.5,
      times,
      sides: { value: side(mount), baseline: side(native) },
    });
  }
  const many = (parent: string) => (run: number) => settled(parent, `many-${run}`, writeMany);
  await around.row({
    id: 'volume-files',
    what: `${files} files of 2 MiB created, written, closed and renamed by one thread in a scratch volume, against ext4`,
    unit: 'k/s',
    better: 'more',
    target: 0.5,
    times,
    sides: { value: many(mount), baseline: many(native) },
  });
}

async function rowOfReading(
  around: Surroundings,
  cluster: Cluster,
  { mount, native }: { mount: string; native: string },
): Promise<void> {
  const elsewhere = await cluster.mountBest('volume:bench', 'reader');
  const dataset = join(native, 'dataset');
  makeSmallFiles(dataset, files, fileBytes);
  await cluster.hearth(['dataset', 'add', 'files', dataset]);
  const view = await cluster.mount('files', 'fuse', 'reader');
  await around.row({
    id: 'volume-remote',
    what: `${files} files of 2 MiB of a scratch volume read on another node, against those of a dataset, which that node has`,
    unit: 'k/s',
    better: 'more',
    target: 0.9,
    times,
    sides: {
      value: (run) =>
        settled(mount, `remote-${run}`, async (folder) => {
          writeMany(folder);
          await dropPageCache();
          return await readFolder(join(elsewhere, `remote-${run}`), files);
        }),
      baseline: async () => {
        await cluster.evict('files');
        await cluster.hearth(['warm', 'files', '--node', 'writer']);
        await dropPageCache();
        return await readFolder(view, files);
      },
    },
  });
}
