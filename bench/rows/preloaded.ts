import { join } from 'node:path';
import { Cluster } from '../cluster.ts';
import { makeFiles } from '../data.ts';
import type { Group, Surroundings } from '../plan.ts';
import { dropPageCache, readFiles } from '../reader.ts';

const parts = 4;
/** Two reads of hot pages differ by up to a quarter here. */
const times = 3;

const pathsIn = (folder: string): string[] =>
  Array.from({ length: parts }, (_, index) => join(folder, `part-${index}`));

/** The first read after a warm job, by the mount that `hearth mount` chooses, against a second read of the native file system. */
export const preloaded: Group = {
  ids: ['preloaded-'],
  ownOnly: true,
  async measure(around: Surroundings): Promise<void> {
    const { directory, bytes, release } = around;
    const folder = join(directory, 'preloaded');
    const native = join(folder, 'model');
    makeFiles(native, parts, bytes / parts);
    const filesBytes = bytes + 2 ** 28;
    const cluster = await Cluster.start(folder, ['preloaded'], 2 * bytes + 2 ** 30, { release, filesBytes });
    try {
      await cluster.hearth(['dataset', 'add', 'model', native]);
      const first = async (mode: 'read' | 'mmap'): Promise<number> => {
        await cluster.evict('model');
        await cluster.hearth(['warm', 'model']);
        const mount = await cluster.mountBest('model');
        try {
          await dropPageCache();
          return await readFiles(mode, pathsIn(mount));
        } finally {
          await cluster.unmount(mount);
        }
      };
      const second = async (mode: 'read' | 'mmap'): Promise<number> => {
        await dropPageCache();
        await readFiles('read', pathsIn(native));
        return readFiles(mode, pathsIn(native));
      };
      for (const mode of ['read', 'mmap'] as const) {
        await around.row({
          id: `preloaded-${mode}`,
          what: `first ${mode === 'read' ? 'read()' : 'mmap'} after a warm job through the default mount, against a second one of the native file system`,
          unit: 'GiB/s',
          better: 'more',
          target: 0.9,
          times,
          sides: { value: () => first(mode), baseline: () => second(mode) },
        });
      }
    } finally {
      await cluster.stop();
    }
  },
};
