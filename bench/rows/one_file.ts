import { join } from 'node:path';
import { Cluster } from '../cluster.ts';
import { oncePerRun } from '../once_per_run.ts';
import type { Group, Surroundings } from '../plan.ts';
import { withServedFiles } from '../served_files.ts';
import { memoryForAll } from './cold.ts';

const dataset = 'one-file';
const nodes = ['first', 'second'] as const;
/** Bytes enough for the spread of system times: a loop takes a third of a second for each GiB. */
const fewestBytes = 2 ** 30;

type Node = (typeof nodes)[number];

/** Seconds that each event loop of an agent takes for each GiB while it brings all of the file. */
async function timesOfLoops(cluster: Cluster, node: Node, bytes: number): Promise<number[]> {
  await cluster.hearth(['evict', dataset, '--node', node]);
  const before = cluster.eventLoopSeconds(node);
  await cluster.hearth(['warm', dataset, '--verify', 'none', '--node', node]);
  const after = cluster.eventLoopSeconds(node);
  return after.map((seconds, loop) => (seconds - (before[loop] ?? 0)) / (bytes / 2 ** 30));
}

async function row(around: Surroundings, cluster: Cluster, from: string, node: Node, bytes: number): Promise<void> {
  const timesOf = oncePerRun(() => timesOfLoops(cluster, node, bytes));
  await around.row({
    id: `one-file-${from}`,
    what: `one file from ${from === 'peer' ? 'another agent' : 'an HTTP origin'}: processor time for each GiB of the busiest event loop, against what it would be if all did as much`,
    unit: 's',
    better: 'less',
    target: 0.8,
    sides: {
      value: async (run) => Math.max(...(await timesOf(run))),
      baseline: async (run) => {
        const times = await timesOf(run);
        return times.reduce((sum, each) => sum + each, 0) / times.length;
      },
    },
  });
}

/** Shows if one large file uses all event loops. */
export const oneFile: Group = {
  ids: ['one-file'],
  async measure(around: Surroundings): Promise<void> {
    const bytes = Math.max(around.bytes / 2, fewestBytes);
    await withServedFiles(around.directory, { count: 1, bytes }, async (urls) => {
      const cluster = await Cluster.start(join(around.directory, 'two'), [...nodes], 2 * bytes + 2 ** 30, {
        release: around.release,
        memoryBytes: memoryForAll({ bytes }),
      });
      try {
        await cluster.hearth(['dataset', 'add', dataset, ...urls, '--allow-private']);
        await row(around, cluster, 'origin', 'first', bytes);
        await row(around, cluster, 'peer', 'second', bytes);
      } finally {
        await cluster.stop();
      }
    });
  },
};
