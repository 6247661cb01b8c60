import { join } from 'node:path';
import { run } from '../command.ts';
import type { Group, Surroundings } from '../plan.ts';

const limit = 1;

/** Where gated pods go, worked out for a large cluster; the baseline is the limit. */
export const planner: Group = {
  ids: ['planner'],
  async measure(around: Surroundings): Promise<void> {
    const program = join(around.release, 'operator/src/planner/testing/speed.ts');
    for (const [id, podsPerGroup] of [
      ['planner', 1],
      ['planner-groups', 5],
    ] as const) {
      await around.row({
        id,
        what: `planning 500 gated pods in groups of ${podsPerGroup}, 5000 nodes, 1000 datasets, at most ${limit} s of one core`,
        unit: 's',
        better: 'less',
        target: 1,
        sides: {
          value: async () => Number(await run(process.execPath, [program, String(podsPerGroup)])),
          baseline: async () => limit,
        },
      });
    }
  },
};
