import { join } from 'node:path';
import { makeSmallFiles } from '../data.ts';
import type { Group, Surroundings } from '../plan.ts';
import { dropPageCache, readFolder } from '../reader.ts';

const files = 2000;

export const smallFiles: Group = {
  ids: ['view-small', 'small-fuse'],
  async measure(around: Surroundings): Promise<void> {
    const { cluster } = around;
    const native = join(around.directory, 'small');
    makeSmallFiles(native, files, 16 * 1024);
    await cluster.hearth(['dataset', 'add', 'small', native]);
    await cluster.hearth(['warm', 'small']);
    const view = await cluster.mount('small', 'view');
    const side = (folder: string) => async (): Promise<number> => {
      await readFolder(folder, files);
      return readFolder(folder, files);
    };
    await around.row({
      id: 'view-small',
      what: `view, ${files} files of 16 KiB opened, read and closed, page cache hot`,
      unit: 'k/s',
      better: 'more',
      target: 0.95,
      sides: { value: side(view), baseline: side(native) },
    });
    await cluster.unmount(view);
    const cold = (folder: string) => async (): Promise<number> => {
      await dropPageCache();
      return readFolder(folder, files);
    };
    const fuse = await cluster.mount('small', 'fuse');
    await around.row({
      id: 'small-fuse',
      what: `${files} complete files of 16 KiB opened, read and closed through FUSE, page cache cold`,
      unit: 'k/s',
      better: 'more',
      target: 0.7,
      times: 3,
      sides: { value: cold(fuse), baseline: cold(native) },
    });
    await cluster.unmount(fuse);
  },
};
