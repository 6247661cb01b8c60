import type { Clock } from '@hearth/common';

/** A wake-up signal that is not lost when it comes early: one ring wakes the current wait, else the next one. */
export class Wake {
  readonly #clock: Clock;
  #rung = false;
  #sleeper: (() => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  ring(): void {
    this.#rung = true;
    this.#sleeper?.();
  }

  /** Waits for the next ring, or for at most `limitMs`. One waiter at a time. */
  async wait(limitMs?: number): Promise<void> {
    if (!this.#rung) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#sleeper = resolve;
      const cancel = limitMs === undefined ? undefined : this.#clock.schedule(limitMs, resolve);
      await promise;
      cancel?.();
      this.#sleeper = undefined;
    }
    this.#rung = false;
  }
}
