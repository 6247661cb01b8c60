import { type Clock, HearthError, sleep } from '@hearth/common';

const pauseMilliseconds = 500;

/** Waits for an agent that went away. Jobs and records live in the store and survive the agent. */
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

  /** Call after each answer of the agent. */
  answered(): void {
    this.#awaySince = undefined;
  }

  /**
   * Pauses before another attempt, or throws the failure when it is not `Unavailable`, when the user interrupts, or
   * when the agent has been away too long. Calls `firstTime` when a wait begins.
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
