import { join } from 'node:path';
import { root, run } from '../command.ts';
import type { Group, Surroundings } from '../plan.ts';

/** A renewal of the agent's lease each 3 s, and nothing else: 8 bytes of a lease. */
const limit = { bytes: 8 / 3, requests: 1 / 3 };

interface Load {
  bytes: number;
  requests: number;
}

/** The load of one agent with 500 Datasets on the store of the cluster; the baseline is the limit. */
export const storeWrites: Group = {
  ids: ['store-writes'],
  ownOnly: true,
  async measure(around: Surroundings): Promise<void> {
    const program = join(root, 'node-agent/src/testing/store_load.ts');
    for (const state of ['idle', 'busy']) {
      const loads = new Map<number, Promise<Load>>();
      const load = (index: number) => {
        const measured = loads.get(index) ?? run(process.execPath, [program, state]).then((text) => JSON.parse(text));
        loads.set(index, measured);
        return measured as Promise<Load>;
      };
      for (const [what, unit, words] of [
        ['bytes', 'B/s', 'bytes of keys, values and leases'],
        ['requests', '1/s', 'requests'],
      ] as const) {
        await around.row({
          id: `store-writes-${state}-${what}`,
          what: `${words} that an ${state} agent with 500 Datasets sends to the store, at most a lease each 3 s`,
          unit,
          better: 'less',
          target: 1,
          sides: { value: async (index) => (await load(index))[what], baseline: async () => limit[what] },
        });
      }
    }
  },
};
