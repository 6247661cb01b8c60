import { basename, dirname, join } from 'node:path';
import { Cluster } from '../cluster.ts';
import { root, run } from '../command.ts';
import { whileHostKeepsMemory } from '../host_memory.ts';
import type { Group, Surroundings } from '../plan.ts';
import { dropPageCache } from '../reader.ts';

const python = process.env.BENCH_PYTHON || join(root, 'build/bench-python/bin/python');
const program = join(root, 'bench/python/load_slices.py');
const node = 'slices';

/** Of a load by so many ranks, of files that the agent has and the page cache has not. */
interface Load {
  seconds: number;
  /** That all ranks together have read. */
  bytes: number;
}

async function measure(around: Surroundings): Promise<void> {
  const { directory, bytes, release } = around;
  const made = await run(python, [program, 'make', join(directory, 'slices-model'), String(bytes)]);
  const files = made.trim().split('\n');
  const cluster = await Cluster.start(join(directory, node), [node], 2 * bytes + 2 ** 30, { release });
  try {
    await cluster.hearth(['dataset', 'add', 'model', dirname(files[0] ?? '')]);
    await cluster.hearth(['warm', 'model']);
    const mount = await cluster.mountBest('model');
    const paths = files.map((file) => join(mount, basename(file)));
    const load = async (ranks: number): Promise<Load> => {
      await dropPageCache();
      const [seconds = Number.NaN, read = Number.NaN] = (await run(python, [program, String(ranks), ...paths]))
        .split(' ')
        .map(Number);
      return { seconds, bytes: read };
    };
    for (const ranks of [2, 4]) {
      await around.row({
        id: `load-slices-${ranks}`,
        what: `${ranks} processes load their slices of every tensor through a mount, until every byte was read, against one that loads all`,
        unit: 's',
        better: 'less',
        target: 1 / 1.1,
        sides: {
          value: async () => (await load(ranks)).seconds,
          baseline: async () => (await load(1)).seconds,
        },
      });
      await around.row({
        id: `load-slices-bytes-${ranks}`,
        what: `bytes that ${ranks} processes read that load their slices of every tensor, against those of one that loads all; each reads the headers`,
        unit: 'MiB',
        better: 'less',
        target: 1 / 1.001,
        sides: {
          value: async () => (await load(ranks)).bytes / 2 ** 20,
          baseline: async () => (await load(1)).bytes / 2 ** 20,
        },
      });
    }
  } finally {
    await cluster.stop();
  }
}

/** Ranks of a tensor-parallel engine. Needs a Python environment with hearth and safetensors. */
export const loadSlices: Group = {
  ids: ['load-slices'],
  long: true,
  ownOnly: true,
  measure: (around) => whileHostKeepsMemory(() => measure(around)),
};
