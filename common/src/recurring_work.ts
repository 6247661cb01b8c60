import type { Clock } from './clock.ts';

/** Work that is done every so often and whenever it is asked for, but never twice at a time. */
export class RecurringWork {
  readonly #work: () => Promise<void>;
  readonly #cancel: () => void;
  #turn: Promise<void> | undefined;
  #closed = false;

  /** `work` must not reject. The first time is after `everyMs`, unless `begin` is called. Keeps no process alive. */
  constructor(clock: Clock, everyMs: number, work: () => Promise<void>) {
    this.#work = work;
    this.#cancel = clock.every(everyMs, () => this.begin());
  }

  /** At once, unless it is under way, or this is closed. */
  begin(): void {
    if (this.#closed) return;
    this.#turn ??= this.#work().finally(() => {
      this.#turn = undefined;
    });
  }

  /** Resolves when what is under way has ended. */
  async settled(): Promise<void> {
    await this.#turn;
  }

  /** Begins no more, and resolves when what is under way has ended. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#cancel();
    await this.#turn;
  }
}
