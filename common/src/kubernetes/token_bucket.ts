import type { Clock } from '../clock.ts';

/** So many things a second in the long run, and `burst` at once. */
export class TokenBucket {
  readonly #ratePerSecond: number;
  readonly #burst: number;
  readonly #clock: Clock;
  /** May be below zero: tokens that were promised for later. */
  #tokens: number;
  #at: number;

  constructor(limits: { ratePerSecond: number; burst: number }, clock: Clock) {
    this.#ratePerSecond = limits.ratePerSecond;
    this.#burst = limits.burst;
    this.#clock = clock;
    this.#tokens = limits.burst;
    this.#at = clock.now();
  }

  /** Takes a token and returns after how many ms it may be used. */
  reserve(): number {
    this.#refill();
    this.#tokens -= 1;
    return this.#tokens >= 0 ? 0 : (-this.#tokens * 1000) / this.#ratePerSecond;
  }

  /** All tokens are there: nothing was taken for long. */
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
