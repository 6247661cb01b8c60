import { join } from 'node:path';
import { makeFiles } from '../data.ts';
import type { Group, Surroundings } from '../plan.ts';
import { dropPageCache, readFiles, readRandom } from '../reader.ts';
import type { Measure } from '../result.ts';

const coldReads = 4000;
const hotReads = 200_000;
/**
 * Two reads of one file on the native file system differ by up to a factor of two here, so that the median of five
 * ratios of equals is anything from 0.9 to 1.1; that of 25, for which BENCH_RUNS=8 asks, is within a few percent.
 */
const times = 3;

type Path = (folder: string) => Promise<number>;

/** A side of a row: with nothing in the page cache, or with all of it there. */
const cold = (path: Path, folder: string) => async (): Promise<number> => {
  await dropPageCache();
  return path(folder);
};
/**
 * The page cache is filled by one reader from the beginning to the end, on both sides alike: its pages are as large
 * as that reader's read-ahead makes them, and that, not the way to them, would otherwise be compared.
 */
const hot = (path: Path, folder: string) => async (): Promise<number> => {
  await dropPageCache();
  await readFiles('read', [join(folder, 'part-0')]);
  return path(folder);
};

/** A large complete file by each data path, against a copy of it on the file system itself. */
export const completeFile: Group = {
  ids: ['local-', 'view-read', 'daemon-', 'holder-'],
  async measure(around: Surroundings): Promise<void> {
    const { cluster, directory, bytes } = around;
    const native = join(directory, 'large');
    makeFiles(native, 1, bytes);
    await cluster.hearth(['dataset', 'add', 'large', native]);
    await cluster.hearth(['warm', 'large']);

    const read: Path = (folder) => readFiles('read', [join(folder, 'part-0')]);
    const map: Path = (folder) => readFiles('mmap', [join(folder, 'part-0')]);
    let seed = 0;
    const random =
      (count: number): Path =>
      (folder) =>
        readRandom(join(folder, 'part-0'), count, ++seed);
    const throughput = { unit: 'GiB/s', better: 'more' as const };
    const row = (about: Omit<Measure, 'sides'>, side: typeof cold, path: Path, mount: string): Promise<void> =>
      around.row({ ...about, times, sides: { value: side(path, mount), baseline: side(path, native) } });

    const fuse = await cluster.mount('large', 'fuse');
    for (const [name, side] of [['cold', cold] as const, ['hot', hot] as const]) {
      const state = `page cache ${name}`;
      await row(
        { id: `local-read-${name}`, what: `passthrough, read(), ${state}`, ...throughput, target: 0.95 },
        side,
        read,
        fuse,
      );
      await row(
        { id: `local-mmap-${name}`, what: `passthrough, mmap, ${state}`, ...throughput, target: 0.95 },
        side,
        map,
        fuse,
      );
      await row(
        {
          id: `local-rand4k-${name}`,
          what: `passthrough, random 4 KiB pread, ${state}`,
          unit: 'k/s',
          better: 'more',
          target: name === 'cold' ? 0.9 : 0.75,
        },
        side,
        random(name === 'cold' ? coldReads : hotReads),
        fuse,
      );
    }
    await cluster.unmount(fuse);

    const view = await cluster.mount('large', 'view');
    for (const [name, side] of [['cold', cold] as const, ['hot', hot] as const]) {
      await row(
        { id: `view-read-${name}`, what: `view, read(), page cache ${name}`, ...throughput, target: 0.98 },
        side,
        read,
        view,
      );
    }
    await cluster.unmount(view);

    const daemon = await cluster.mount('large', 'daemon');
    await row(
      { id: 'daemon-read', what: 'FUSE without passthrough, read(), page cache cold', ...throughput, target: 0.5 },
      cold,
      read,
      daemon,
    );
    await row(
      { id: 'daemon-mmap', what: 'FUSE without passthrough, mmap, page cache cold', ...throughput, target: 0.3 },
      cold,
      map,
      daemon,
    );
    await around.row({
      id: 'holder-stopped',
      what: 'FUSE without passthrough, read(), page cache cold, while the mount holder is stopped; the same while it runs',
      ...throughput,
      target: 0.95,
      times,
      sides: {
        value: () => cluster.withoutHolder(cold(read, daemon)),
        baseline: cold(read, daemon),
      },
    });
    await cluster.unmount(daemon);
    await cluster.evict('large');
  },
};
