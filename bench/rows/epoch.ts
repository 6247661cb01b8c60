import { join } from 'node:path';
import { Cluster } from '../cluster.ts';
import { makeSmallFilesInFolders } from '../data.ts';
import type { Group, Surroundings } from '../plan.ts';
import { readShuffled } from '../reader.ts';

const bytes = 20 * 1024;
const perFolder = 1000;
/** Of the entries of the large mount: with as many as usual, twice what a view takes. */
const part = 1 / 5;

async function rows(around: Surroundings, cluster: Cluster, native: string, files: number): Promise<void> {
  await cluster.hearth(['dataset', 'add', 'epoch', native]);
  await cluster.hearth(['warm', 'epoch', '--verify', 'none']);
  const mount = await cluster.mount('epoch', 'fuse');
  // In another order once before, so that all of it is in the page cache.
  const side =
    (folder: string) =>
    async (run: number): Promise<number> => {
      await readShuffled(folder, files, 2 * run);
      return readShuffled(folder, files, 2 * run + 1);
    };
  await around.row({
    id: 'epoch',
    what: `${files} complete files of 20 KiB opened, read and closed through FUSE in random order, page cache hot`,
    unit: 'k/s',
    better: 'more',
    target: 0.5,
    sides: { value: side(mount), baseline: side(native) },
  });
  await cluster.unmount(mount);
}

/** One pass of a training job over a dataset of many small files, all of them in the cache. */
export const epoch: Group = {
  ids: ['epoch'],
  // One pass is hundreds of thousands of files, and the same from one to the next.
  share: 1 / 3,
  // Making so many and warming them takes minutes.
  long: true,
  async measure(around: Surroundings): Promise<void> {
    const files = Math.ceil(around.entries * part);
    const native = join(around.directory, 'epoch');
    makeSmallFilesInFolders(native, files, perFolder, bytes);
    const budget = 2 * files * bytes + 2 ** 30;
    const cluster = await Cluster.start(join(around.directory, 'many'), ['many'], budget, around);
    try {
      await rows(around, cluster, native, files);
    } finally {
      await cluster.stop();
    }
  },
};
