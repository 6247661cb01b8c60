import type { Clock } from './clock.ts';

export interface BackOffLimits {
  firstMs: number;
  longestMs: number;
}

/**
 * The pause before the next attempt, ms: `firstMs` after the first failure, when `failures` is 0, and twice as long after
 * each further one. It is drawn from its upper half, so that clients that failed together spread out.
 */
export function backOffMs(clock: Clock, failures: number, { firstMs, longestMs }: BackOffLimits): number {
  const ceiling = Math.min(longestMs, firstMs * 2 ** Math.min(failures, 40));
  return ceiling * (0.5 + clock.random() / 2);
}
