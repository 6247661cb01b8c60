import { closeSync, fsyncSync, openSync, readdirSync, readSync, writeSync } from 'node:fs';
import { join } from 'node:path';

/** Cache files below the folder of an agent's cache. */
export function cacheFiles(cacheFolder: string): string[] {
  return readdirSync(join(cacheFolder, 'objects'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name));
}

/** Rots a disk: one bit of each of these bytes is another from now on, in the same inode. */
export function flipBits(file: string, places: readonly number[]): void {
  const descriptor = openSync(file, 'r+');
  try {
    const byte = Buffer.alloc(1);
    for (const place of places) {
      readSync(descriptor, byte, 0, 1, place);
      writeSync(descriptor, Buffer.from([(byte[0] ?? 0) ^ 0x10]), 0, 1, place);
    }
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
