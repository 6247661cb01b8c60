/** Something to wait for that is not lost when it comes early: one ring wakes the present or else the next wait. */
export class Wake {
  #rung = false;
  #sleeper: (() => void) | undefined;

  ring(): void {
    this.#rung = true;
    this.#sleeper?.();
  }

  /** Until the next ring, or for at most `limitMs`. One waiter at a time. */
  async wait(limitMs?: number): Promise<void> {
    if (!this.#rung) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#sleeper = resolve;
      const timer = limitMs === undefined ? undefined : setTimeout(resolve, limitMs);
      await promise;
      clearTimeout(timer);
      this.#sleeper = undefined;
    }
    this.#rung = false;
  }
}
