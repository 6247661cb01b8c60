import { epochMs, systemClock } from '../clock.ts';
import { ScheduledClock } from './scheduled_clock.ts';
import { settle } from './test_clock.ts';

interface Timer {
  at: number;
  run: () => void;
  real: NodeJS.Timeout | undefined;
}

/**
 * The system's clock, which a test puts forward: for parts that work together in real time, of which only a grace or a
 * deadline is to be over. Its timers keep no process alive.
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

  /** Puts it forward. What is due by then has run, each timer once, in order, when this resolves. */
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
    // setTimeout() takes longer times for none at all, and no test is that long.
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
