import { basename, join } from 'node:path';
import { Nginx } from '@hearth/common/testing/origins';
import { Cluster } from '../cluster.ts';
import { makeFiles } from '../data.ts';
import type { Group, Surroundings } from '../plan.ts';

const fileCount = 8;
/** The origin's bytes are counted, not timed: this much shows it. */
const countedBytes = 512 * 2 ** 20;

async function originBytes(around: Surroundings, files: string[], nginx: Nginx, agents: number): Promise<void> {
  const urls = files.map((file) => `${nginx.url}/${basename(file)}`);
  const size = countedBytes;
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

/** How often bytes come from an origin, here nginx. */
export const countedOrigin: Group = {
  ids: ['origin-bytes'],
  async measure(around: Surroundings): Promise<void> {
    const served = join(around.directory, 'served');
    const files = makeFiles(served, fileCount, countedBytes);
    const nginx = await Nginx.start(join(around.directory, 'nginx'), served);
    try {
      for (const agents of [1, 3]) await originBytes(around, files, nginx, agents);
    } finally {
      await nginx.stop();
    }
  },
};
