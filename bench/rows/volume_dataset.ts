import { renameSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '@hearth/common/testing';
import { Cluster } from '../cluster.ts';
import { run } from '../command.ts';
import { Control } from '../control.ts';
import type { Group } from '../plan.ts';

const gib = 2 ** 30;
const blockBytes = 4 * 2 ** 20;
const nodes = ['trainer', 'node-1', 'node-2', 'node-3'];
const dataset = 'model';
const file = 'weights';

/** Bytes that the disk has not taken yet slow whatever comes next. */
const settleDisk = () => run('sync', []);

/** A trainer saves a file into a scratch volume and renames it; inference nodes have it as a dataset. */
export const volumeDataset: Group = {
  ids: ['dataset-rename'],
  ownOnly: true,
  async measure({ directory, bytes, release, row }) {
    const cluster = await Cluster.start(join(directory, 'volume-dataset'), nodes, 6 * bytes, { release });
    const control = new Control(cluster.socketOf('trainer'));
    try {
      await cluster.hearth(['volume', 'create', 'kv', '--deadline', '60s']);
      await until('the volume has a leader', async () => {
        return JSON.parse(await cluster.hearth(['--json', 'volume', 'show', 'kv'])).state === 'Ready';
      });
      const mount = await cluster.mountBest('volume:kv', 'trainer');
      const part = join(mount, 'part');
      const save = async (): Promise<void> => {
        const size = ['bs=4M', `count=${Math.ceil(bytes / blockBytes)}`];
        await run('dd', ['if=/dev/urandom', `of=${part}`, ...size, 'conv=fsync', 'status=none']);
      };
      await save();
      renameSync(part, join(mount, file));
      await control.addVolume(dataset, 'kv', file);
      await control.warm(dataset);
      await row({
        id: 'dataset-rename',
        what: `rename of a file of ${(bytes / gib).toFixed(2)} GiB in a scratch volume until the last of four agents has it in memory, against a warm job of the same bytes from the first of them`,
        unit: 's',
        better: 'less',
        target: 1 / 1.2,
        times: 3,
        sides: {
          value: async () => {
            await save();
            await settleDisk();
            const begun = Date.now();
            renameSync(part, join(mount, file));
            await control.addVolume(dataset, 'kv', file);
            const { createdAt, secondsToMemory } = await control.warm(dataset);
            return (Date.parse(createdAt) - begun) / 1000 + secondsToMemory;
          },
          baseline: async () => {
            await Promise.all(nodes.slice(1).map((node) => evicted(cluster, node)));
            await settleDisk();
            return (await control.warm(dataset)).secondsToMemory;
          },
        },
      });
    } finally {
      control.close();
      await cluster.stop();
    }
  },
};

interface Evicted {
  nodes: { filesKept: number; bytesFreed: number }[];
}

/** The node has no byte of the dataset any more. */
async function evicted(cluster: Cluster, node: string): Promise<void> {
  await until(`no byte is on ${node}`, async () => {
    const answer = JSON.parse(await cluster.hearth(['--json', 'evict', dataset, '--node', node])) as Evicted;
    return answer.nodes.every(({ filesKept, bytesFreed }) => filesKept === 0 && bytesFreed === 0);
  });
}
