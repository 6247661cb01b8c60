import { closeSync, mkdirSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { Cluster } from '../cluster.ts';
import { root, run } from '../command.ts';
import { makeSmallFiles } from '../data.ts';
import type { Group, Surroundings } from '../plan.ts';
import { dropPageCache, readFolder } from '../reader.ts';

const writers = join(root, 'bench/python/concurrent_writers.py');
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
      await cluster.volumeIsReady('bench');
      const mount = await cluster.mountBest('volume:bench', 'writer');
      await rowsOfWriting(around, { mount, native });
      await rowOfReading(around, cluster, { mount, native });
    } finally {
      await cluster.stop();
    }
  },
};

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
  const atOnce = (parent: string) => (round: number) =>
    settled(parent, `writers-${round}`, async (folder) => Number(await run('python3', [writers, folder])));
  await around.row({
    id: 'volume-writers',
    what: '64 processes at once that write 404 files of 4 KiB to 64 MiB, close and rename them in a scratch volume, against ext4',
    unit: 'GiB/s',
    better: 'more',
    target: 0.7,
    times,
    sides: { value: atOnce(mount), baseline: atOnce(native) },
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
