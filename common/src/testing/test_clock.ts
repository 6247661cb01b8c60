import { ScheduledClock } from './scheduled_clock.ts';

/** A clock that stands still until a test advances it. */
export class TestClock extends ScheduledClock {
  #now = 0;
  readonly #timers = new Set<{ at: number; run: () => void }>();

  now(): number {
    return this.#now;
  }

  date(): Date {
    return new Date(Date.UTC(2026, 0, 1) + this.#now);
  }

  schedule(ms: number, run: () => void): () => void {
    const timer = { at: this.#now + Math.max(0, ms), run };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  }

  /** Time until the next timer; undefined: no timer is set. */
  get next(): number | undefined {
    const times = Array.from(this.#timers, ({ at }) => at);
    return times.length === 0 ? undefined : Math.min(...times) - this.#now;
  }

  /** Advances the clock. Timers run in order, each together with the work it starts that needs no real time. */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms;
    await settle();
    for (;;) {
      const due = [...this.#timers].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0];
      if (due === undefined) break;
      this.#now = Math.max(this.#now, due.at);
      this.#timers.delete(due);
      due.run();
      await settle();
    }
    this.#now = end;
  }

  /** Advances the clock without running timers, as on a machine that was stopped. */
  stall(ms: number): void {
    this.#now += ms;
  }
}

/** Lets pending promises settle. */
export function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
