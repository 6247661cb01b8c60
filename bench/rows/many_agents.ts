import { join } from 'node:path';
import { root, run } from '../command.ts';
import type { Group, Surroundings } from '../plan.ts';

/** As operator/bin/hearth-operator. */
const flags = ['--max-semi-space-size=4', '--optimize-for-size'];
const limit = { residentMiB: 1024, cores: 0.5 };

type Load = Record<keyof typeof limit, number>;

/** The load of the streams of a thousand busy agents on the operator; the baseline is the limit. */
export const manyAgents: Group = {
  ids: ['many-agents'],
  long: true,
  ownOnly: true,
  async measure(around: Surroundings): Promise<void> {
    const program = join(root, 'operator/src/agents/testing/many_agents_load.ts');
    const loads = new Map<number, Promise<Load>>();
    const load = (index: number) => {
      const measured =
        loads.get(index) ??
        run(process.execPath, [...flags, program], 10 * 60_000).then((text) => JSON.parse(text) as Load);
      loads.set(index, measured);
      return measured;
    };
    const who = 'operator that follows 1,000 busy agents, each with a tenth of 2,000 Datasets';
    for (const [id, what, unit, key] of [
      ['memory', 'resident memory', 'MiB', 'residentMiB'],
      ['processor', 'cores', 'cores', 'cores'],
    ] as const) {
      await around.row({
        id: `many-agents-${id}`,
        what: `${what} of an ${who}, at most ${limit[key]}`,
        unit,
        better: 'less',
        target: 1,
        sides: { value: async (index) => (await load(index))[key], baseline: async () => limit[key] },
      });
    }
  },
};
