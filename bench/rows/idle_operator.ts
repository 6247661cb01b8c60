import { join } from 'node:path';
import { root, run } from '../command.ts';
import type { Group, Surroundings } from '../plan.ts';

const limit = 2;

/** The processor time of a large cluster's operator while nothing happens; the baseline is the limit. */
export const idleOperator: Group = {
  ids: ['idle-operator'],
  long: true,
  ownOnly: true,
  async measure(around: Surroundings): Promise<void> {
    const program = join(root, 'e2e/src/scaled_operator.ts');
    let windows: Promise<string> | undefined;
    await around.row({
      id: 'idle-operator',
      what: `processor time of an idle operator of 200 nodes and 500 Datasets, at most ${limit} % of a core`,
      unit: '%',
      better: 'less',
      target: 1,
      sides: {
        // One operator is looked at again and again: it takes minutes until it idles.
        value: async (index) => {
          windows ??= run(process.execPath, [program, String(around.runs)], 30 * 60_000);
          return Number(
            (await windows)
              .trim()
              .split('\n')
              .at(index - around.runs),
          );
        },
        baseline: async () => limit,
      },
    });
  },
};
