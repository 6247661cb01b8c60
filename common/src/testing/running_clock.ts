import { epochMs, systemClock } from '../clock.ts';
import { ScheduledClock } from './scheduled_clock.ts';
import { settle } from './test_clock.ts';

interface Timer {
  at: number;
  run: () => void;
  real: NodeJS.Timeout | undefined;
}

/**
 * The system clock, which a test can advance, for parts that run in real time except for a grace period or deadline.
 * Its timers do not keep the process alive.
 */
export class RunningClock extends ScheduledClock {
  #aheadMs = 0;
  readonly #timers = new Set<Timer>();

  now(): number {
    return systemClock.now() + this.#aheadMs;
  }

  date(): Date {
    return new Date(epochMs(systemClock) + this.#aheadMs);
  }

  schedule(ms: number, run: () => void): () => void {
    const timer: Timer = { at: this.now() + ms, run, real: undefined };
    this.#timers.add(timer);
    this.#arm(timer);
    return () => this.#drop(timer);
  }

  /** Advances the clock. Resolves when every due timer has run once, in order. */
  async advance(ms: number): Promise<void> {
    this.#aheadMs += ms;
    for (;;) {
      const due = [...this.#timers].filter(({ at }) => at <= this.now()).sort((a, b) => a.at - b.at)[0];
      if (due === undefined) break;
      this.#drop(due);
      due.run();
      await settle();
    }
    for (const timer of this.#timers) this.#arm(timer);
  }

  #arm(timer: Timer): void {
    clearTimeout(timer.real);
    // setTimeout() fires at once for longer delays.
    const left = Math.min(2 ** 31 - 1, Math.max(0, timer.at - this.now()));
    timer.real = setTimeout(() => {
      this.#drop(timer);
      timer.run();
    }, left).unref();
  }

  #drop(timer: Timer): void {
    clearTimeout(timer.real);
    this.#timers.delete(timer);
  }
}
