import { sleep } from '@hearth/common';
import { LiveRegion } from '../live_region.ts';
import type { Output } from '../output.ts';
import type { ClusterSession } from './cluster_session.ts';

/** Prints the result of `look` periodically until the user interrupts; redraws in place on a terminal. */
export async function watch<T>(
  session: ClusterSession,
  seconds: number,
  look: () => Promise<T>,
  print: (output: Output, seen: T) => void,
): Promise<void> {
  const { interrupt, clock, interactive } = session.terminal;
  const region = new LiveRegion(session.terminal);
  try {
    while (!interrupt.aborted) {
      const seen = await look();
      if (session.json) session.printJson(seen);
      else if (interactive) region.draw(await session.screenful((output) => print(output, seen)));
      else print(session, seen);
      await sleep(clock, seconds * 1000, interrupt);
    }
  } catch (thrown) {
    if (!interrupt.aborted) throw thrown;
  } finally {
    region.end();
  }
}
