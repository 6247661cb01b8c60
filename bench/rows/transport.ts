import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root, run } from '../command.ts';
import type { Group, Surroundings } from '../plan.ts';

const target = 'hearth_transport_throughput';
/** Sources of that program, but for the transport. */
const sources = ['native/transport/testing/throughput_main.cc', 'native/transport/test_node.h'];
const buildMs = 10 * 60_000;

/**
 * The program of a release. That of another one is built with its transport, and only where it does the same: else before and
 * after would be two programs and not two transports.
 */
async function programOf(release: string): Promise<string> {
  if (release !== root) {
    const textIn = (checkout: string, path: string): string | undefined => {
      const file = join(checkout, path);
      return existsSync(file) ? readFileSync(file, 'utf8') : undefined;
    };
    const other = sources.find((path) => textIn(release, path) !== textIn(root, path));
    if (other !== undefined) throw new Error(`${other} is another one there, so its figures are not of the same work`);
    await run('bash', ['-c', `cd '${release}' && scripts/build-native.sh release ${target}`], buildMs);
  }
  return join(release, 'build/release/transport', target);
}

/** One stream between two agents on loopback, bytes in memory; the baseline is raw TCP. */
export const transport: Group = {
  ids: ['transport-'],
  async measure(around: Surroundings): Promise<void> {
    const program = await programOf(around.release);
    for (const backend of ['io_uring', 'epoll']) {
      await around.row({
        id: `transport-${backend}`,
        what: `512 MiB in chunks of 4 MiB over one stream of the transport (${backend}), checksums compared; raw TCP`,
        unit: 'GiB/s',
        better: 'more',
        target: 0.8,
        times: 3,
        sides: {
          value: async () => Number(await run(program, [backend])),
          baseline: async () => Number(await run(program, ['raw'])),
        },
      });
    }
  },
};
