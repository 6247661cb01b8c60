import { statfs } from 'node:fs/promises';
import { type Clock, sleep, systemClock } from '@hearth/common';
import type { Statistics } from '@hearth/engine';

/** A disk that has not answered for so long keeps the engine's value. */
const patienceMs = 1_000;

type Measure = (path: string) => Promise<bigint>;

async function freeBytesOf(path: string): Promise<bigint> {
  const space = await statfs(path, { bigint: true });
  return space.bavail * space.bsize;
}

/**
 * Replaces the free space of each file system by its current value. The engine measures only before it writes, so its
 * values are old when idle, and 0 before the first write. A directory that cannot be measured keeps the engine's value.
 */
export class FreeSpace {
  readonly #clock: Clock;
  readonly #measure: Measure;
  /** By path. A disk that hangs takes one of the process's few threads for files, and no more. */
  readonly #measuring = new Map<string, Promise<bigint | undefined>>();

  constructor(clock: Clock = systemClock, measure: Measure = freeBytesOf) {
    this.#clock = clock;
    this.#measure = measure;
  }

  async replaceIn(statistics: Statistics): Promise<Statistics> {
    const directories = statistics.directories.map(async (directory) => {
      const bytes = await this.#freeBytes(directory.path);
      return bytes === undefined ? directory : { ...directory, fileSystemFreeBytes: bytes };
    });
    return { ...statistics, directories: await Promise.all(directories) };
  }

  async #freeBytes(path: string): Promise<bigint | undefined> {
    if (this.#measuring.has(path)) return undefined;
    const measuring = this.#measure(path)
      .catch(() => undefined)
      .finally(() => this.#measuring.delete(path));
    this.#measuring.set(path, measuring);
    const waiting = new AbortController();
    const patience = sleep(this.#clock, patienceMs, waiting.signal).then(() => undefined);
    return await Promise.race([measuring, patience]).finally(() => waiting.abort());
  }
}
