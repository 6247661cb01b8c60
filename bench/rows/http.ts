import { basename, join } from 'node:path';
import { Nginx } from '@hearth/common/testing/origins';
import { Cluster } from '../cluster.ts';
import { run, seconds } from '../command.ts';
import { makeFiles } from '../data.ts';
import type { Group, Surroundings } from '../plan.ts';
import { dropPageCache, readFiles } from '../reader.ts';

const fileCount = 8;
/** The origin's bytes are counted, not timed: this much shows it. */
const countedBytes = 512 * 2 ** 20;

async function coldHttp(around: Surroundings, files: string[], nginx: Nginx): Promise<void> {
  const { cluster } = around;
  const urls = files.map((file) => `${nginx.url}/${basename(file)}`);
  await cluster.hearth(['dataset', 'add', 'web', ...urls, '--allow-private']);
  await around.row({
    id: 'cold-http',
    what: 'empty cache, one reader of 8 files through the mount, HTTP origin, against 8 parallel curl to /dev/null',
    unit: 'GiB/s',
    better: 'more',
    target: 0.5,
    sides: {
      baseline: async () => {
        await dropPageCache();
        const curl = (url: string): Promise<string> => run('curl', ['-sSf', '-o', '/dev/null', url]);
        const took = await seconds(() => Promise.all(urls.map(curl)));
        return around.bytes / 2 ** 30 / took;
      },
      value: async () => {
        await cluster.evict('web');
        const mount = await cluster.mount('web', 'fuse');
        await dropPageCache();
        const rate = await readFiles(
          'read',
          files.map((file) => join(mount, basename(file))),
        );
        await cluster.unmount(mount);
        return rate;
      },
    },
  });
  await cluster.evict('web');
}

async function originBytes(around: Surroundings, files: string[], nginx: Nginx, agents: number): Promise<void> {
  const urls = files.map((file) => `${nginx.url}/${basename(file)}`);
  const size = (countedBytes * files.length) / fileCount;
  const nodes = Array.from({ length: agents }, (_, index) => `counted-${index}`);
  const cluster = await Cluster.start(join(around.directory, 'counted'), nodes, 2 * size + 2 ** 28, around);
  try {
    await cluster.hearth(['dataset', 'add', 'counted', ...urls, '--allow-private']);
    await around.row({
      id: `origin-bytes-${agents}`,
      what: `size of the data / bytes the origin sent, ${agents === 1 ? 'one agent' : `${agents} agents starting at once`}`,
      unit: 'MiB',
      better: 'less',
      target: 1,
      sides: {
        value: async () => {
          await cluster.evict('counted');
          const before = await nginx.bytesSent();
          await cluster.hearth(['warm', 'counted']);
          return ((await nginx.bytesSent()) - before) / 2 ** 20;
        },
        baseline: async () => size / 2 ** 20,
      },
    });
  } finally {
    await cluster.stop();
  }
}

/** Rows with nginx as the origin. */
export const http: Group = {
  ids: ['cold-http', 'origin-bytes'],
  async measure(around: Surroundings): Promise<void> {
    const served = join(around.directory, 'served');
    const files = makeFiles(served, fileCount, around.bytes);
    const countedIn = join(around.directory, 'served-counted');
    const counted = makeFiles(countedIn, fileCount, countedBytes);
    const nginx = await Nginx.start(join(around.directory, 'nginx'), served);
    try {
      await coldHttp(around, files, nginx);
    } finally {
      await nginx.stop();
    }
    const other = await Nginx.start(join(around.directory, 'nginx-counted'), countedIn);
    try {
      for (const agents of [1, 3]) await originBytes(around, counted, other, agents);
    } finally {
      await other.stop();
    }
  },
};
