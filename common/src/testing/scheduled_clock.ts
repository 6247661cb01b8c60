import type { Clock } from '../clock.ts';

/** The common base of clocks in tests: `schedule` makes all of their timers. */
export abstract class ScheduledClock implements Clock {
  /** Always the middle, unless it is set. */
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
