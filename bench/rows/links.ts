import { join } from 'node:path';
import { root, run } from '../command.ts';
import { Links, payloadGibPerSecond } from '../links.ts';
import type { Group, Surroundings } from '../plan.ts';

const program = join(root, 'build/release/bench/hearth_bench_links');
const mib = 2 ** 20;
const fast = 4e9;
const slow = 1e9;
const stallLimit = 400;
const addedMicroseconds = 5000;

/** Words of the program's line. */
async function measured(words: readonly (string | number)[]): Promise<number[]> {
  return (await run(program, words.map(String))).trim().split(' ').map(Number);
}

const first = async (words: readonly (string | number)[]): Promise<number> => (await measured(words))[0] ?? Number.NaN;

async function onOneLink({ directory, row }: Surroundings): Promise<void> {
  const links = await Links.create(1, fast);
  try {
    await row({
      id: 'link-4g',
      what: "512 MiB of another agent's memory over a link of 4 Gbit/s, at most what TCP's payload can be",
      unit: 'GiB/s',
      better: 'more',
      target: 0.95,
      sides: {
        value: () => first(['read', directory, links.end('holder'), links.end('reader'), 512 * mib]),
        baseline: async () => payloadGibPerSecond(fast),
      },
    });
  } finally {
    await links.remove();
  }
}

async function onTwoLinks({ directory, row }: Surroundings): Promise<void> {
  const links = await Links.create(2, slow);
  const read = (count: number) =>
    first(['read', directory, links.end('holder', count), links.end('reader', count), 128 * mib]);
  const cut = async (): Promise<number> => {
    const ends = [links.end('holder'), links.end('reader')];
    try {
      return (await measured(['cut', directory, ...ends, 128 * mib, links.cutting(1)]))[1] ?? Number.NaN;
    } finally {
      await links.mend(1);
    }
  };
  try {
    await row({
      id: 'two-rails',
      what: "128 MiB of another agent's memory over two links of 1 Gbit/s; over one of them",
      unit: 'GiB/s',
      better: 'more',
      target: 1.9,
      sides: { value: () => read(2), baseline: () => read(1) },
    });
    await row({
      id: 'rail-cut',
      what: `the same over two links, one of which is cut when half has come: the longest that nothing came, at most ${stallLimit} ms`,
      unit: 'ms',
      better: 'less',
      target: 1,
      sides: { value: cut, baseline: async () => stallLimit },
    });
  } finally {
    await links.remove();
  }
}

async function beside({ directory, row }: Surroundings): Promise<void> {
  const links = await Links.create(1, slow);
  const idle = new Map<number, number>();
  const p99 = async (index: number): Promise<number> => {
    const ends = [links.end('holder'), links.end('reader')];
    const [, alone = Number.NaN, , loaded = Number.NaN] = await measured([
      'loaded',
      directory,
      ...ends,
      256 * mib,
      2000,
    ]);
    idle.set(index, alone);
    return loaded;
  };
  try {
    await row({
      id: 'lat-loaded',
      what: 'reads of 4 KiB while a warm job fills a link of 1 Gbit/s, the 99th of a hundred; at most 5 ms more than alone',
      unit: 'us',
      better: 'less',
      target: 1,
      sides: {
        value: p99,
        baseline: async (index) => {
          if (!idle.has(index)) await p99(index);
          return (idle.get(index) ?? Number.NaN) + addedMicroseconds;
        },
      },
    });
  } finally {
    await links.remove();
  }
}

/** Between two agents in network namespaces, by links of a known speed. */
export const linkReads: Group = {
  ids: ['link-', 'two-rails', 'rail-cut', 'lat-loaded'],
  ownOnly: true,
  async measure(around: Surroundings): Promise<void> {
    await onOneLink(around);
    await onTwoLinks(around);
    await beside(around);
  },
};
