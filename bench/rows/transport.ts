import { join } from 'node:path';
import { root, run } from '../command.ts';
import type { Group, Surroundings } from '../plan.ts';

const program = join(root, 'build/release/transport/hearth_transport_throughput');

/** One stream between two agents on loopback, bytes in memory; the baseline is raw TCP. */
export const transport: Group = {
  ids: ['transport-'],
  ownOnly: true,
  async measure(around: Surroundings): Promise<void> {
    for (const backend of ['io_uring', 'epoll']) {
      await around.row({
        id: `transport-${backend}`,
        what: `512 MiB in chunks of 4 MiB over one stream of the transport (${backend}), checksums compared; raw TCP`,
        unit: 'GiB/s',
        better: 'more',
        target: 0.8,
        times: 5,
        sides: {
          value: async () => Number(await run(program, [backend])),
          baseline: async () => Number(await run(program, ['raw'])),
        },
      });
    }
  },
};
