import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { until } from './until.ts';

/**
 * Lets time pass where no state can be awaited: while something must not happen, or where time itself is under test.
 * Await expected states with `until`. `why` states the reason for readers.
 */
export async function elapse(milliseconds: number, _why: string): Promise<void> {
  await sleep(milliseconds);
}

/**
 * Waits until two looks, `apartMs` apart, return the same value, and returns it; for work that gives no sign of its
 * end.
 */
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
