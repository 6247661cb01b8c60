import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { root, run } from '../command.ts';
import { oncePerRun } from '../once_per_run.ts';
import type { Group, Surroundings } from '../plan.ts';

const build = join(root, 'build/release');
const program = join(build, 'bench/hearth_bench_client');
const rawTcp = join(build, 'bench/hearth_bench_raw_tcp');
const mib = 2 ** 20;
/** Of which the fastest counts, on either side. */
const threads = ['1', '2', '4'];
const python = process.env.BENCH_PYTHON ?? 'python3';

interface Reads {
  medianUs: number;
  p99Us: number;
  gibPerSecond: number;
}

const none: Reads = { medianUs: Number.NaN, p99Us: Number.NaN, gibPerSecond: Number.NaN };
const fastest = (all: Reads[]): Reads =>
  all.reduce((best, each) => (each.gibPerSecond > best.gibPerSecond ? each : best));

/** Whole files of so many bytes, one after the other. */
async function reads(way: 'network' | 'local' | 'native', bytes: number, count: number): Promise<Reads> {
  const lines = await run(program, [way, String(bytes), String(count), ...threads]);
  const all = lines.trim().split('\n');
  return fastest(
    all.map((line) => {
      const [, , medianUs = Number.NaN, p99Us = Number.NaN, gibPerSecond = Number.NaN] = line.split(' ').map(Number);
      return { medianUs, p99Us, gibPerSecond };
    }),
  );
}

async function raw(bytes: number): Promise<number> {
  const lines = await run(rawTcp, ['stream', String(bytes), ...threads]);
  return Math.max(
    ...lines
      .trim()
      .split('\n')
      .map((line) => Number(line.split(' ')[0])),
  );
}

async function mooncake(bytes: number, count: number): Promise<Reads> {
  if (spawnSync(python, ['-c', 'import mooncake.engine']).status !== 0) return none;
  const script = join(root, 'bench/python/mooncake_reads.py');
  // The lines of its threads come before.
  const said = (await run(python, [script, String(bytes), String(count)])).trim().split('\n').at(-1) ?? '';
  const [medianUs = Number.NaN, p99Us = Number.NaN, gibPerSecond = Number.NaN] = said.split(' ').map(Number);
  return { medianUs, p99Us, gibPerSecond };
}

async function large(around: Surroundings, bytes: number): Promise<void> {
  const name = `client-${bytes / mib}m`;
  const ours = oncePerRun(() => reads('network', bytes, 10));
  const what = `a file of ${bytes / mib} MiB of an agent's cache through libgd2fs over the loopback, one read in flight`;
  const rate = { unit: 'GiB/s', better: 'more' as const };
  const value = async (index: number): Promise<number> => (await ours(index)).gibPerSecond;
  await around.row({
    id: name,
    what: `${what}; Mooncake over TCP, memory to memory, no checksums`,
    ...rate,
    target: 1.5,
    sides: { value, baseline: async () => (await mooncake(bytes, 10)).gibPerSecond },
  });
  await around.row({
    id: `${name}-raw`,
    what: `${what}; TCP alone with checksums`,
    ...rate,
    target: 0,
    sides: { value, baseline: () => raw(bytes) },
  });
}

async function small(around: Surroundings): Promise<void> {
  const bytes = 4096;
  const count = 5000;
  const [ours, theirs] = [oncePerRun(() => reads('network', bytes, count)), oncePerRun(() => mooncake(bytes, count))];
  const time = { unit: 'us', better: 'less' as const };
  const what = 'reads of 4 KiB through libgd2fs over the loopback, one after the other';
  for (const [id, part, name] of [
    ['client-4k', 'medianUs', 'median'] as const,
    ['client-4k-p99', 'p99Us', 'p99'] as const,
  ]) {
    await around.row({
      id,
      what: `${what}, ${name}; Mooncake over TCP`,
      ...time,
      target: 1,
      sides: {
        value: async (index) => (await ours(index))[part],
        baseline: async (index) => (await theirs(index))[part],
      },
    });
  }
  await around.row({
    id: 'client-4k-raw',
    what: `${what}, median; TCP alone`,
    ...time,
    target: 0.67,
    sides: {
      value: async (index) => (await ours(index)).medianUs,
      baseline: async () => Number((await run(rawTcp, ['pingpong', String(bytes), '20000'])).split(' ')[0]),
    },
  });
}

async function pygd2fs(around: Surroundings): Promise<void> {
  const both = oncePerRun(async () => {
    const script = join(root, 'bench/python/pygd2fs_calls.py');
    const agent = join(build, 'client_tests/hearth_gd2fs_serve');
    const said = await run('env', [`PYTHONPATH=${join(build, 'client_tests/pygd2fs')}`, python, script, agent]);
    const [perCallUs = Number.NaN, inFlight = Number.NaN] = said.trim().split(' ').map(Number);
    return { perCallUs, inFlight };
  });
  await around.row({
    id: 'client-pygd2fs',
    what: 'processor time of the calling thread for a Read of pygd2fs and its part of Wait; limit: 10 us',
    unit: 'us',
    better: 'less',
    target: 1,
    sides: { value: async (index) => (await both(index)).perCallUs, baseline: async () => 10 },
  });
  await around.row({
    id: 'client-asyncio',
    what: 'reads of pygd2fs in flight on one event loop; 10,000',
    unit: 'reads',
    better: 'more',
    target: 1,
    sides: { value: async (index) => (await both(index)).inFlight, baseline: async () => 10_000 },
  });
}

/** Programs that read through libgd2fs and pygd2fs, in an agent's process or beside it. */
export const clients: Group = {
  ids: ['client-'],
  ownOnly: true,
  async measure(around: Surroundings): Promise<void> {
    for (const bytes of [64 * mib, 256 * mib]) await large(around, bytes);
    await small(around);
    await around.row({
      id: 'client-local',
      what: 'a complete file of 256 MiB on the node of its agent through libgd2fs; the same cache file by pread(2)',
      unit: 'GiB/s',
      better: 'more',
      target: 0.9,
      sides: {
        value: async () => (await reads('local', 256 * mib, 10)).gibPerSecond,
        baseline: async () => (await reads('native', 256 * mib, 10)).gibPerSecond,
      },
    });
    await pygd2fs(around);
  },
};
