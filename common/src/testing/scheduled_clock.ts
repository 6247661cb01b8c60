import type { Clock } from '../clock.ts';

/** Base of test clocks; `schedule` creates all timers. */
export abstract class ScheduledClock implements Clock {
  /** Value of `random`. */
  chance = 0.5;

  abstract now(): number;
  abstract date(): Date;
  abstract schedule(ms: number, run: () => void): () => void;

  random(): number {
    return this.chance;
  }

  every(ms: number, run: () => void): () => void {
    let cancel = () => {};
    const again = () => {
      cancel = this.schedule(ms, again);
      run();
    };
    cancel = this.schedule(ms, again);
    return () => cancel();
  }

  timeout(ms: number): AbortSignal {
    const controller = new AbortController();
    this.schedule(ms, () => controller.abort(new DOMException('The time is over', 'TimeoutError')));
    return controller.signal;
  }
}
