import type { Clock } from './clock.ts';

/** Work that runs periodically and on request, never concurrently with itself. */
export class RecurringWork {
  readonly #work: () => Promise<void>;
  readonly #cancel: () => void;
  #turn: Promise<void> | undefined;
  #closed = false;

  /** `work` must not reject. Runs first after `everyMs`, or when `begin` is called. Does not keep the process alive. */
  constructor(clock: Clock, everyMs: number, work: () => Promise<void>) {
    this.#work = work;
    this.#cancel = clock.every(everyMs, () => this.begin());
  }

  /** Runs the work now, unless it is running or this is closed. */
  begin(): void {
    if (this.#closed) return;
    this.#turn ??= this.#work().finally(() => {
      this.#turn = undefined;
    });
  }

  /** Resolves when the current run has ended. */
  async settled(): Promise<void> {
    await this.#turn;
  }

  /** Starts no further run; resolves when the current run has ended. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#cancel();
    await this.#turn;
  }
}
