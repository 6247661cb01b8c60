import { statfs } from 'node:fs/promises';
import type { Statistics } from '@hearth/engine';

/**
 * The statistics with the free space of each file system as it is now. The engine measures before it writes, so the figures of
 * an idle engine are old, and 0 before the first write. A directory that cannot be asked keeps the figure of the engine.
 */
export async function withFreeSpace(statistics: Statistics): Promise<Statistics> {
  const directories = statistics.directories.map(async (directory) => {
    const space = await statfs(directory.path, { bigint: true }).catch(() => undefined);
    return space === undefined ? directory : { ...directory, fileSystemFreeBytes: space.bavail * space.bsize };
  });
  return { ...statistics, directories: await Promise.all(directories) };
}
