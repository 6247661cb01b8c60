import { join } from 'node:path';
import { root, run } from '../command.ts';
import { makeFiles } from '../data.ts';
import { mooncakeBeside } from '../mooncake.ts';
import type { Group, Surroundings } from '../plan.ts';
import { dropPageCache, readDirect } from '../reader.ts';

const programs = join(root, 'build/release/bench');
const mib = 2 ** 20;
const streams = ['1', '2', '4'];
const pings = '20000';
const reads = '5000';
/** At a time: as many keep the disk busy. */
const diskReaders = 8;

interface Transfer {
  gibPerSecond: number;
  cpuPerGib: number;
}

const transferOf = (line: string): Transfer => {
  const [gibPerSecond = Number.NaN, cpuPerGib = Number.NaN] = line.split(' ').map(Number);
  return { gibPerSecond, cpuPerGib };
};

/** Into the memory of an agent, of what another one has there. */
async function remote({ directory }: Surroundings, from: 'read' | 'disk', bytes: number): Promise<Transfer> {
  return transferOf(await run(join(programs, 'hearth_bench_remote'), [from, directory, String(bytes)]));
}

/** The number of streams by which TCP alone is fastest. */
async function rawBest(bytes: number): Promise<Transfer> {
  const lines = await run(join(programs, 'hearth_bench_raw_tcp'), ['stream', String(bytes), ...streams]);
  const all = lines.trim().split('\n').map(transferOf);
  return all.reduce((best, each) => (each.gibPerSecond > best.gibPerSecond ? each : best));
}

const firstNumber = (text: string): number => Number(text.split(' ')[0]);

async function latency(around: Surroundings, bytes: number): Promise<void> {
  const name = `${bytes / 1024}k`;
  await around.row({
    id: `lat-${name}`,
    what: `reads of ${bytes / 1024} KiB of another agent's bytes, one after the other, median; the same by TCP alone`,
    unit: 'us',
    better: 'less',
    target: 0.67,
    times: 3,
    sides: {
      value: async () => {
        const words = ['latency', around.directory, String(bytes), reads];
        return firstNumber(await run(join(programs, 'hearth_bench_remote'), words));
      },
      baseline: async () =>
        firstNumber(await run(join(programs, 'hearth_bench_raw_tcp'), ['pingpong', String(bytes), pings])),
    },
  });
}

/** One agent's bytes into the memory of another one, on loopback, against TCP alone between distinct huge pages. */
export const remoteReads: Group = {
  ids: ['remote-', 'lat-', 'cpu-remote'],
  ownOnly: true,
  async measure(around: Surroundings): Promise<void> {
    const cpu = { value: new Map<number, number>(), baseline: new Map<number, number>() };
    const largest = 1024 * mib;
    const side = (name: keyof typeof cpu, bytes: number) => async (index: number) => {
      const transfer = name === 'value' ? await remote(around, 'read', bytes) : await rawBest(bytes);
      if (bytes === largest) cpu[name].set(index, transfer.cpuPerGib);
      return transfer.gibPerSecond;
    };
    for (const [name, bytes] of [['256m', 256 * mib] as const, ['1g', largest] as const]) {
      await around.row({
        id: `remote-${name}`,
        what: `a block of ${bytes / mib} MiB into another agent's memory, checksums compared; TCP alone, the best of 1, 2, 4 streams`,
        unit: 'GiB/s',
        better: 'more',
        target: 0.9,
        sides: { value: side('value', bytes), baseline: side('baseline', bytes) },
        ...(bytes === largest ? {} : { beside: mooncakeBeside(bytes) }),
      });
    }
    const used = (name: keyof typeof cpu) => async (index: number) => {
      if (!cpu[name].has(index)) await side(name, largest)(index);
      return cpu[name].get(index) ?? Number.NaN;
    };
    await around.row({
      id: 'cpu-remote',
      what: 'processor time of both agents for each GiB of remote-1g; of both ends of TCP alone',
      unit: 's/GiB',
      better: 'less',
      target: 0,
      sides: { value: used('value'), baseline: used('baseline') },
    });
    const copy = join(around.directory, 'remote-disk');
    makeFiles(copy, 1, largest);
    await around.row({
      id: 'remote-disk',
      what: "1 GiB of another agent's disk into memory; the slower of TCP alone and of reading a file past the page cache",
      unit: 'GiB/s',
      better: 'more',
      target: 0.9,
      sides: {
        value: async () => (await remote(around, 'disk', largest)).gibPerSecond,
        baseline: async () => {
          await dropPageCache();
          return Math.min(await readDirect(diskReaders, join(copy, 'part-0')), (await rawBest(largest)).gibPerSecond);
        },
      },
    });
    for (const bytes of [4096, 65536]) await latency(around, bytes);
  },
};
