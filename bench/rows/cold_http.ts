import { mkdirSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { run, seconds } from '../command.ts';
import type { Group, Surroundings } from '../plan.ts';
import { dropPageCache } from '../reader.ts';
import { withServedFiles } from '../served_files.ts';
import { coldFiles, curlAll, memoryForAll, readersOf, readThroughAgent, warmIntoMemory } from './cold.ts';

const dataset = 'web';

/** GiB/s from the creation of a warm job to its end: then each chunk is claimed by the log of the cache. */
async function stored({ cluster, bytes }: Surroundings): Promise<number> {
  await cluster.evict(dataset);
  await dropPageCache();
  const lines = (await cluster.hearth(['--json', 'warm', dataset, '--verify', 'none'])).trim().split('\n');
  const ended = Date.now();
  const { createdAt } = JSON.parse(lines.at(-1) ?? '') as { createdAt: string };
  return bytes / 2 ** 30 / ((ended - Date.parse(createdAt)) / 1000);
}

/** GiB/s of one dd for each file, all at once, past the page cache and on the disk at the end. */
async function written({ directory, bytes }: Surroundings, files: string[]): Promise<number> {
  const into = join(directory, 'written');
  rmSync(into, { recursive: true, force: true });
  mkdirSync(into);
  await dropPageCache();
  const dd = (file: string): Promise<string> =>
    run('dd', [`if=${file}`, `of=${join(into, basename(file))}`, 'bs=4M', 'oflag=direct', 'conv=fsync', 'status=none']);
  const took = await seconds(() => Promise.all(files.map(dd)));
  rmSync(into, { recursive: true });
  return bytes / 2 ** 30 / took;
}

async function rows(around: Surroundings, urls: string[], files: string[]): Promise<void> {
  const { cluster, bytes } = around;
  await cluster.hearth(['dataset', 'add', dataset, ...urls, '--allow-private']);
  const common = { unit: 'GiB/s', better: 'more' as const };
  const curls = (): Promise<number> =>
    curlAll(
      bytes,
      urls.map((url) => [url]),
    );
  for (const readers of [1, 4]) {
    await around.row({
      ...common,
      id: `cold-http-${readers}r`,
      what: `empty cache, ${readersOf(readers)} of 8 files through the mount, HTTP origin in memory, against 8 curl to /dev/null`,
      target: 0.8,
      sides: {
        value: async () => (await readThroughAgent(cluster, dataset, readers)).gibPerSecond,
        baseline: curls,
      },
    });
  }
  await around.row({
    ...common,
    id: 'memory-http',
    what: 'a warm job from the same origin until all is in memory, against 8 curl to /dev/null',
    target: 0.75,
    sides: { value: () => warmIntoMemory(cluster, dataset, bytes), baseline: curls },
  });
  await around.row({
    ...common,
    id: 'stored-http',
    what: 'a warm job from the same origin until all is claimed on the disk, against 8 dd that write as much past the page cache',
    target: 0.9,
    sides: { value: () => stored(around), baseline: () => written(around, files) },
  });
  await cluster.evict(dataset);
}

/** Bytes that come from nginx for the first time, to readers and onto the disk. */
export const coldHttp: Group = {
  ids: ['cold-http', 'memory-http', 'stored-http'],
  memory: memoryForAll,
  measure: (around: Surroundings): Promise<void> =>
    withServedFiles(around.directory, { count: coldFiles, bytes: around.bytes }, (urls, files) =>
      rows(around, urls, files),
    ),
};
