import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { root, run } from '../command.ts';
import { oncePerRun } from '../once_per_run.ts';
import type { Group, Surroundings } from '../plan.ts';
import { median, number } from '../result.ts';

const program = join(root, 'build/release/bench/hearth_bench_loops');
const tracefs = '/sys/kernel/tracing';
const counts = [1, 2, 4];
const fileBytes = 128 * 2 ** 20;
/** How often the file is read: so much work that ticks of the clock say how much of it is in user space. */
const workPasses = 32;
const callPasses = 8;
const callLimit = 6;

const counted = async (what: 'work' | 'calls', { directory }: Surroundings, loops: number): Promise<number> => {
  const passes = what === 'work' ? workPasses : callPasses;
  return Number(await run(program, [what, directory, ...[fileBytes, loops, passes].map(String)]));
};

/** Each number of event loops once in each run, whichever side asks first. */
async function work(around: Surroundings): Promise<void> {
  const instructions = (await run(program, ['counter'])).trim() === 'instructions';
  const measured: number[][] = [];
  const ofRun = oncePerRun(async () => {
    const ofCounts: number[] = [];
    for (const loops of counts) ofCounts.push(await counted('work', around, loops));
    measured.push(ofCounts);
    return ofCounts;
  });
  const what = instructions ? 'instructions' : 'user time, as this machine counts no instructions for us,';
  await around.row({
    id: 'loops-work',
    what: `${what} of two agents for each MiB that one reads of the other, with 1, 2 and 4 event loops each: the most, against the least`,
    unit: instructions ? '/MiB' : 'us/MiB',
    better: 'less',
    target: 1 / 1.1,
    sides: {
      value: async (index) => Math.max(...(await ofRun(index))),
      baseline: async (index) => Math.min(...(await ofRun(index))),
    },
  });
  const medians = counts.map(
    (loops, at) => `${loops}: ${number(median(measured.map((each) => each[at] ?? Number.NaN)))}`,
  );
  if (medians.every((each) => !each.endsWith('-'))) console.log(`  by event loops (medians): ${medians.join(', ')}`);
}

async function calls(around: Surroundings): Promise<void> {
  const mounted = !existsSync(join(tracefs, 'events'));
  if (mounted) await run('mount', ['-t', 'tracefs', 'hearth-bench', tracefs]);
  try {
    await around.row({
      id: 'loops-calls',
      what: `system calls of an agent for each 4 MiB that it reads of another one's memory, at most ${callLimit}`,
      unit: 'calls',
      better: 'less',
      target: 1,
      // 0: as many event loops as `hearth agent` has.
      sides: { value: () => counted('calls', around, 0), baseline: async () => callLimit },
    });
  } finally {
    if (mounted) await run('umount', [tracefs]);
  }
}

/** The cost of bytes from another agent, by the number of event loops. */
export const loops: Group = {
  ids: ['loops'],
  ownOnly: true,
  async measure(around: Surroundings): Promise<void> {
    await work(around);
    await calls(around);
  },
};
