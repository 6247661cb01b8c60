import { join } from 'node:path';
import { root, run } from '../command.ts';
import type { Group, Surroundings } from '../plan.ts';

const program = join(root, 'build/release/bench/hearth_bench_find');
const limitNanoseconds = 50;

/** The cost for a reader to find a chunk in memory before it moves a byte. */
export const findChunk: Group = {
  ids: ['find-chunk'],
  ownOnly: true,
  measure: (around: Surroundings): Promise<void> =>
    around.row({
      id: 'find-chunk',
      what: `a thread finds a chunk in the memory of its agent and lets go of it again: at most ${limitNanoseconds} ns`,
      unit: 'ns',
      better: 'less',
      target: 1,
      sides: { value: async () => Number(await run(program, [])), baseline: async () => limitNanoseconds },
    }),
};
