import { join } from 'node:path';
import { run } from '../command.ts';
import type { Group, Surroundings } from '../plan.ts';

const limit = 1;

/** Where gated pods go, worked out for a large cluster; the baseline is the limit. */
export const planner: Group = {
  ids: ['planner'],
  async measure(around: Surroundings): Promise<void> {
    await around.row({
      id: 'planner',
      what: `planning 500 gated pods, 5000 nodes, 1000 datasets, at most ${limit} s of one core`,
      unit: 's',
      better: 'less',
      target: 1,
      sides: {
        value: async () =>
          Number(await run(process.execPath, [join(around.release, 'operator/src/planner/testing/speed.ts')])),
        baseline: async () => limit,
      },
    });
  },
};
