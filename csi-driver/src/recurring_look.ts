import { type Clock, HearthError, type Logger, RecurringWork, systemClock } from '@hearth/common';

export type LookParts = { everyMs: number; logger: Logger; clock?: Clock };

/** Periodically checks the node and repairs findings, one look at a time. */
export abstract class RecurringLook {
  protected readonly clock: Clock;
  readonly #parts: LookParts;
  readonly #warning: string;
  #looks: RecurringWork | undefined;
  #lastFailure = '';

  constructor(parts: LookParts, warning: string) {
    this.#parts = parts;
    this.#warning = warning;
    this.clock = parts.clock ?? systemClock;
  }

  /** May throw; the next look retries. */
  protected abstract repair(): Promise<void>;

  /** The first look comes after `everyMs`, or at once. */
  start(when: 'later' | 'now' = 'later'): void {
    this.#looks = new RecurringWork(this.clock, this.#parts.everyMs, () => this.look());
    if (when === 'now') this.#looks.begin();
  }

  async close(): Promise<void> {
    await this.#looks?.close();
  }

  /** Never throws. Logs a failure once, until a success or another failure. */
  async look(): Promise<void> {
    try {
      await this.repair();
      this.#lastFailure = '';
    } catch (thrown) {
      const error = HearthError.from(thrown);
      if (error.message !== this.#lastFailure) this.#parts.logger.warn(this.#warning, { error });
      this.#lastFailure = error.message;
    }
  }
}
