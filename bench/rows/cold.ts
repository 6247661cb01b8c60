import { join } from 'node:path';
import type { Cluster } from '../cluster.ts';
import { run, seconds } from '../command.ts';
import { dropPageCache, readParallel } from '../reader.ts';

/** Of one data set, in which readers take the next one each. */
export const coldFiles = 8;
export const partsOf = (count: number): string[] => Array.from({ length: count }, (_, index) => `part-${index}`);

/**
 * Memory for chunks with which the disk sets no pace: it holds all files, also when most of them are of one shard, as
 * each shard has a part of it.
 */
export const memoryForAll = ({ bytes }: { bytes: number }): number => 2 * bytes;

export const readersOf = (count: number): string => (count === 1 ? 'one reader' : `${count} readers`);

/** The result of one cold read. */
export interface ColdRead {
  gibPerSecond: number;
  /** User and system time of the agent, or of another program, for each GiB. */
  cpuPerGib: number;
}

/** Reads the files of a mount that has none of their bytes; `processor`: the seconds that its program has used so far. */
export async function readCold(mount: string, readers: number, processor: () => number): Promise<ColdRead> {
  await dropPageCache();
  const before = processor();
  const files = partsOf(coldFiles).map((file) => join(mount, file));
  const { bytes, seconds: took } = await readParallel(readers, files);
  const gib = bytes / 2 ** 30;
  return { gibPerSecond: gib / took, cpuPerGib: (processor() - before) / gib };
}

/** The same through an agent that holds nothing of the dataset. */
export async function readThroughAgent(cluster: Cluster, dataset: string, readers: number): Promise<ColdRead> {
  await cluster.evict(dataset);
  const mount = await cluster.mount(dataset, 'fuse');
  try {
    return await readCold(mount, readers, () => cluster.processorSeconds());
  } finally {
    await cluster.unmount(mount);
  }
}

/** GiB/s of one curl for each file, all at once, to /dev/null. */
export async function curlAll(bytes: number, words: string[][]): Promise<number> {
  await dropPageCache();
  const curl = (of: string[]): Promise<string> => run('curl', ['-sSf', '-o', '/dev/null', ...of]);
  return bytes / 2 ** 30 / (await seconds(() => Promise.all(words.map(curl))));
}

/** The bytes that the engine asks an origin for at once. */
const rangeBytes = 8 * 2 ** 20;

/** The same, each curl asking for its file of `fileBytes` range after range on one connection. */
export function curlRanges(bytes: number, words: string[][], fileBytes: number): Promise<number> {
  const ranges = Array.from({ length: Math.ceil(fileBytes / rangeBytes) }, (_, index) => {
    const first = index * rangeBytes;
    return `${first}-${Math.min(first + rangeBytes, fileBytes) - 1}`;
  });
  const ranged = (of: string[]): string[] =>
    ranges.flatMap((range, index) => [
      ...(index === 0 ? [] : ['--next', '-sSf', '-o', '/dev/null']),
      '-r',
      range,
      ...of,
    ]);
  return curlAll(bytes, words.map(ranged));
}

/** GiB/s from the creation of a warm job until all bytes are in the memory of an agent that held nothing of the dataset. */
export async function warmIntoMemory(cluster: Cluster, dataset: string, bytes: number): Promise<number> {
  await cluster.evict(dataset);
  await dropPageCache();
  return bytes / 2 ** 30 / (await cluster.secondsToMemory(dataset));
}
