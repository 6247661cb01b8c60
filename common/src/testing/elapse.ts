import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { until } from './until.ts';

/**
 * Lets time pass where there is nothing to wait for: while something must not happen, or what is tested is time itself. What
 * will happen is waited for by `until`. `why`: what would happen in that time, or what it is for; for readers alone.
 */
export async function elapse(milliseconds: number, _why: string): Promise<void> {
  await sleep(milliseconds);
}

/** Waits until two looks, so far apart, show the same, and gives that: what has ended without a sign of its end. */
export async function steady<T>(what: string, apartMs: number, look: () => Promise<T> | T): Promise<T> {
  let before = await look();
  await until(`${what} is the same for ${apartMs} ms`, async () => {
    await sleep(apartMs);
    const last = before;
    before = await look();
    return isDeepStrictEqual(last, before);
  });
  return before;
}
