import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { run, seconds } from '../command.ts';
import { makeFiles } from '../data.ts';
import type { Group, Surroundings } from '../plan.ts';
import { dropPageCache } from '../reader.ts';

/** A directory origin onto the cache's disk, against cp and fsync. */
export const warmDirectory: Group = {
  ids: ['warm-dir'],
  async measure(around: Surroundings): Promise<void> {
    const { cluster, bytes } = around;
    const folder = join(around.directory, 'directory');
    makeFiles(folder, 8, bytes);
    await cluster.hearth(['dataset', 'add', 'directory', folder]);
    const copy = join(around.directory, 'copy');
    const copying = async (): Promise<number> => {
      rmSync(copy, { recursive: true, force: true });
      mkdirSync(copy);
      await dropPageCache();
      const took = await seconds(async () => {
        await run('cp', ['-r', `${folder}/.`, copy]);
        await run('sync', [...readdirSync(copy).map((name) => join(copy, name)), copy]);
      });
      return bytes / 2 ** 30 / took;
    };
    const warming = (verify: string) => async (): Promise<number> => {
      await cluster.evict('directory');
      await dropPageCache();
      const took = await seconds(() => cluster.hearth(['warm', 'directory', '--verify', verify]));
      return bytes / 2 ** 30 / took;
    };
    const common = { unit: 'GiB/s', better: 'more' as const, target: 0.8 };
    await around.row({
      ...common,
      id: 'warm-dir',
      what: '`hearth warm` from a directory, on the disk and claimed, against cp and fsync',
      sides: { value: warming('none'), baseline: copying },
    });
    await around.row({
      ...common,
      id: 'warm-dir-verified',
      what: 'the same, then read back from the disk and checked, against cp and fsync without a check',
      sides: { value: warming('checksum'), baseline: copying },
    });
    await cluster.evict('directory');
    rmSync(copy, { recursive: true, force: true });
  },
};
