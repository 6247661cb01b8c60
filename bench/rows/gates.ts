import { join } from 'node:path';
import { root, run } from '../command.ts';
import type { Group, Surroundings } from '../plan.ts';

const limit = 1;

/** How long pods wait whose bytes are there; the baseline is the limit. */
export const gates: Group = {
  ids: ['gates'],
  long: true,
  ownOnly: true,
  async measure(around: Surroundings): Promise<void> {
    const program = join(root, 'operator/src/gates/testing/hundred_pods.ts');
    await around.row({
      id: 'gates',
      what: `from the creation of 100 pods at once to the open gates of 95, all bytes there, at most ${limit} s`,
      unit: 's',
      better: 'less',
      target: 1,
      sides: {
        value: async () => Number((await run(process.execPath, [program])).trim().split('\n').at(-1)),
        baseline: async () => limit,
      },
    });
  },
};
