import type { Clock } from '../clock.ts';

export interface BackoffLimits {
  firstMs: number;
  longestMs: number;
  /** A failure after this much quiet time starts from the first delay again. Without it only reset() does. */
  calmMs?: number;
}

/**
 * Delays that double with each failure. Each delay is drawn from the upper half, so that clients that failed together
 * spread out.
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

  /** Delay after one more failure, ms. */
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
