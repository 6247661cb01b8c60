import type { Clock } from './clock.ts';

/** Work that runs periodically and on request, never concurrently with itself. */
export class RecurringWork {
  readonly #work: () => Promise<void>;
  readonly #cancel: () => void;
  #turn: Promise<void> | undefined;
  #isRequested = false;
  #closed = false;

  /** `work` must not reject. Runs first after `everyMs`, or when `begin` is called. Does not keep the process alive. */
  constructor(clock: Clock, everyMs: number, work: () => Promise<void>) {
    this.#work = work;
    this.#cancel = clock.every(everyMs, () => this.begin());
  }

  /** Runs the work now, unless it is running or this is closed. */
  begin(): void {
    if (this.#closed) return;
    this.#turn ??= this.#run().finally(() => {
      this.#turn = undefined;
    });
  }

  /** Runs the work now, and once more after a run that is under way. */
  request(): void {
    this.#isRequested = true;
    this.begin();
  }

  /** Resolves when the current run has ended, and the one that was requested meanwhile. */
  async settled(): Promise<void> {
    await this.#turn;
  }

  /** Starts no further run; resolves when the current run has ended. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#cancel();
    await this.#turn;
  }

  async #run(): Promise<void> {
    do {
      this.#isRequested = false;
      await this.#work();
    } while (this.#isRequested && !this.#closed);
  }
}
