import { join } from 'node:path';
import { root, run } from '../command.ts';
import type { Group, Surroundings } from '../plan.ts';

const program = join(root, 'build/release/bench/hearth_hit_ratio');
/** Seeds below this one have chosen the tuning of the policy. */
const firstSeed = 1000;

/** Byte hit ratios of one cache size. */
interface SimulatedSize {
  /** Of the models that can be loaded. */
  share: number;
  ours: number;
  /** Of LRU, LFU, SIEVE, S3-FIFO and GDSF, on this seed. */
  best: number;
  /** Above which nothing is possible. */
  bound: number;
}

/** Which files stay in memory, simulated: a seed a run. */
export const hitRatio: Group = {
  ids: ['hit-ratio'],
  ownOnly: true,
  async measure(around: Surroundings): Promise<void> {
    const runs = new Map<number, Promise<SimulatedSize[]>>();
    const simulated = (number: number): Promise<SimulatedSize[]> => {
      const known = runs.get(number);
      if (known !== undefined) return known;
      const sizes = run(program, ['--json', String(firstSeed + number), '1']).then(
        (text) => JSON.parse(text) as SimulatedSize[],
      );
      runs.set(number, sizes);
      return sizes;
    };
    for (const percent of [5, 10, 20, 40, 80]) {
      const of = async (number: number, what: 'ours' | 'best' | 'bound'): Promise<number> => {
        const size = (await simulated(number)).find(({ share }) => Math.round(share * 100) === percent);
        if (size === undefined) throw new Error(`${program} has simulated no cache of ${percent} %`);
        return size[what];
      };
      for (const [id, against, target] of [
        [`hit-ratio-${percent}`, 'best', 0.98],
        [`hit-ratio-bound-${percent}`, 'bound', 0.85],
      ] as const) {
        await around.row({
          id,
          what: `byte hit ratio on a simulated trace of model loads, cache of ${percent} % of the models; ${against}`,
          unit: 'x',
          better: 'more',
          target,
          times: 4,
          sides: { value: (number) => of(number, 'ours'), baseline: (number) => of(number, against) },
        });
      }
    }
  },
};
