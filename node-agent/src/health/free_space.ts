import { statfs } from 'node:fs/promises';
import type { Statistics } from '@hearth/engine';

/**
 * Replaces the free space of each file system by its current value. The engine measures only before it writes, so its
 * values are old when idle, and 0 before the first write. A directory that cannot be measured keeps the engine's value.
 */
export async function withFreeSpace(statistics: Statistics): Promise<Statistics> {
  const directories = statistics.directories.map(async (directory) => {
    const space = await statfs(directory.path, { bigint: true }).catch(() => undefined);
    return space === undefined ? directory : { ...directory, fileSystemFreeBytes: space.bavail * space.bsize };
  });
  return { ...statistics, directories: await Promise.all(directories) };
}
