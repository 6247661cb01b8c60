import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { run, seconds } from '../command.ts';
import { HubOfFolder } from '../hub.ts';
import type { Group, Surroundings } from '../plan.ts';
import { dropPageCache } from '../reader.ts';
import { withFilesInMemory } from '../served_files.ts';
import { coldFiles, curlAll, memoryForAll } from './cold.ts';

const dataset = 'hub';

/** GiB/s of a warm job until each file has been compared with its SHA-256, is claimed, and all are linked into a view. */
async function linked({ cluster, bytes }: Surroundings): Promise<number> {
  await cluster.evict(dataset);
  await dropPageCache();
  const took = await cluster.secondsToStored(dataset, 'none');
  // It is refused where a file is not whole.
  await cluster.unmount(await cluster.mount(dataset, 'view'));
  return bytes / 2 ** 30 / took;
}

/** GiB/s of one curl for each file, all at once, into files. */
async function downloaded({ directory, bytes }: Surroundings, urls: string[]): Promise<number> {
  const into = join(directory, 'curl');
  rmSync(into, { recursive: true, force: true });
  mkdirSync(into);
  await dropPageCache();
  const curl = (url: string): Promise<string> => run('curl', ['-sSfLO', '--output-dir', into, url]);
  const took = await seconds(() => Promise.all(urls.map(curl)));
  rmSync(into, { recursive: true });
  return bytes / 2 ** 30 / took;
}

async function rows(around: Surroundings, { source, urls }: HubOfFolder): Promise<void> {
  const { cluster, bytes } = around;
  await cluster.hearth(['dataset', 'add', dataset, ...source]);
  await around.row({
    id: 'cold-hub',
    what: '8 files with a SHA-256 each from a hub in memory, until they are compared with it and linked into a view, against 8 curl into files',
    unit: 'GiB/s',
    better: 'more',
    target: 0.7,
    sides: { value: () => linked(around), baseline: () => downloaded(around, urls) },
    beside: [
      {
        name: 'curl to /dev/null',
        measure: () =>
          curlAll(
            bytes,
            urls.map((url) => ['-L', url]),
          ),
      },
    ],
  });
  await cluster.evict(dataset);
}

/** Files whose origin gives their SHA-256: from a hub into a view. */
export const coldHub: Group = {
  ids: ['cold-hub'],
  memory: memoryForAll,
  measure: (around: Surroundings): Promise<void> =>
    withFilesInMemory(around.directory, { count: coldFiles, bytes: around.bytes }, async (served) => {
      const hub = await HubOfFolder.start(join(around.directory, 'nginx'), served);
      try {
        await rows(around, hub);
      } finally {
        await hub.stop();
      }
    }),
};
