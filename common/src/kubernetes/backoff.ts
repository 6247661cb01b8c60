import type { Clock } from '../clock.ts';

export interface BackoffLimits {
  firstMs: number;
  longestMs: number;
  /** Doing well for this time starts again. Absent: only reset() does. */
  calmMs?: number;
}

/**
 * Delays that double from failure to failure, each drawn evenly from its upper half, so that many clients that failed
 * together do not come back together.
 */
export class Backoff {
  readonly #limits: BackoffLimits;
  readonly #clock: Clock;
  #failures = 0;
  #last = Number.NEGATIVE_INFINITY;

  constructor(limits: BackoffLimits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
  }

  /** The time to wait after one more failure, ms. */
  next(): number {
    const { firstMs, longestMs, calmMs = Number.POSITIVE_INFINITY } = this.#limits;
    const now = this.#clock.now();
    if (now - this.#last > calmMs) this.#failures = 0;
    const ceiling = Math.min(longestMs, firstMs * 2 ** Math.min(this.#failures, 40));
    this.#failures += 1;
    const delay = ceiling * (0.5 + this.#clock.random() / 2);
    this.#last = now + delay;
    return delay;
  }

  reset(): void {
    this.#failures = 0;
  }
}
