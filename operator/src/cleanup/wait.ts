import { type Clock, sleep, systemClock } from '@hearth/common/kubernetes';

export const pauseMs = 1_000;

/** Resolves to true when the condition came to hold in time. Looks at least once. */
export async function until(
  { signal, clock = systemClock }: { signal: AbortSignal; clock?: Clock },
  timeMs: number,
  holds: () => Promise<boolean>,
): Promise<boolean> {
  for (const end = clock.now() + timeMs; ; ) {
    if (await holds()) return true;
    if (clock.now() >= end) return false;
    await sleep(clock, pauseMs, signal);
    signal.throwIfAborted();
  }
}
