import type { Clock } from '../clock.ts';

/** Rate limiter: `ratePerSecond` tokens in the long run, bursts of up to `burst`. */
export class TokenBucket {
  readonly #ratePerSecond: number;
  readonly #burst: number;
  readonly #clock: Clock;
  /** Negative when future tokens are reserved. */
  #tokens: number;
  #at: number;

  constructor(limits: { ratePerSecond: number; burst: number }, clock: Clock) {
    this.#ratePerSecond = limits.ratePerSecond;
    this.#burst = limits.burst;
    this.#clock = clock;
    this.#tokens = limits.burst;
    this.#at = clock.now();
  }

  /** Takes a token; returns the delay until the caller may use it, ms. */
  reserve(): number {
    this.#refill();
    this.#tokens -= 1;
    return this.#tokens >= 0 ? 0 : (-this.#tokens * 1000) / this.#ratePerSecond;
  }

  /** True when no token was taken for long enough to refill the bucket. */
  get isFull(): boolean {
    this.#refill();
    return this.#tokens >= this.#burst;
  }

  #refill(): void {
    const now = this.#clock.now();
    this.#tokens = Math.min(this.#burst, this.#tokens + ((now - this.#at) / 1000) * this.#ratePerSecond);
    this.#at = now;
  }
}
