import { setTimeout as sleep } from 'node:timers/promises';

export const pauseMs = 1_000;

/** Whether it came to hold in time. Looks at least once. */
export async function until(timeMs: number, signal: AbortSignal, holds: () => Promise<boolean>): Promise<boolean> {
  for (const end = Date.now() + timeMs; ; ) {
    if (await holds()) return true;
    if (Date.now() >= end) return false;
    await sleep(pauseMs, undefined, { signal });
  }
}
