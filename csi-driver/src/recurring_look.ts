import { type Clock, HearthError, type Logger, RecurringWork, systemClock } from '@hearth/common';

export interface LookParts {
  /** Milliseconds between looks. */
  everyMs: number;
  logger: Logger;
  clock?: Clock;
}

/** Looks at the node every so often, one look at a time, and mends what it finds. */
export abstract class RecurringLook {
  protected readonly clock: Clock;
  readonly #parts: LookParts;
  readonly #warning: string;
  #looks: RecurringWork | undefined;
  #lastFailure = '';

  /** `warning`: the line for the log when a look fails. */
  constructor(parts: LookParts, warning: string) {
    this.#parts = parts;
    this.#warning = warning;
    this.clock = parts.clock ?? systemClock;
  }

  /** May fail: the next look tries again. */
  protected abstract mend(): Promise<void>;

  /** The first look is after `everyMs`, or at once. */
  start(when: 'later' | 'now' = 'later'): void {
    this.#looks = new RecurringWork(this.clock, this.#parts.everyMs, () => this.look());
    if (when === 'now') this.#looks.begin();
  }

  async close(): Promise<void> {
    await this.#looks?.close();
  }

  /** Never fails: a failure is logged once, until a look succeeds or fails in another way. */
  async look(): Promise<void> {
    try {
      await this.mend();
      this.#lastFailure = '';
    } catch (thrown) {
      const error = HearthError.from(thrown);
      if (error.message !== this.#lastFailure) this.#parts.logger.warn(this.#warning, { error });
      this.#lastFailure = error.message;
    }
  }
}
