import { type Clock, HearthError, sleep } from '@hearth/common';

const pauseMilliseconds = 500;

/** Waits for an agent that went away: what is followed lives in the store and outlives it. */
export class ReconnectTimeout {
  readonly #limitMilliseconds: number;
  readonly #signal: AbortSignal;
  readonly #clock: Clock;
  #awaySince: number | undefined;

  constructor(limitMilliseconds: number, signal: AbortSignal, clock: Clock) {
    this.#limitMilliseconds = limitMilliseconds;
    this.#signal = signal;
    this.#clock = clock;
  }

  /** The agent has answered. */
  answered(): void {
    this.#awaySince = undefined;
  }

  /**
   * Returns after a pause when the failure is worth another try, and throws it else: not `Unavailable`,
   * interrupted, or away for too long. `firstTime` is called when a wait begins.
   */
  async retry(thrown: unknown, firstTime: () => void): Promise<void> {
    const error = HearthError.from(thrown);
    if (error.code !== 'Unavailable' || this.#signal.aborted) throw error;
    if (this.#awaySince === undefined) {
      this.#awaySince = this.#clock.now();
      firstTime();
    }
    if (this.#clock.now() - this.#awaySince > this.#limitMilliseconds) throw error;
    await sleep(this.#clock, pauseMilliseconds, this.#signal);
    this.#signal.throwIfAborted();
  }
}
