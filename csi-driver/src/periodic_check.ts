import { type Clock, HearthError, type Logger, RecurringWork, systemClock } from '@hearth/common';

export type CheckParts = { everyMs: number; logger: Logger; clock?: Clock };

/** Periodically checks the node and repairs findings, one check at a time. */
export abstract class PeriodicCheck {
  protected readonly clock: Clock;
  readonly #parts: CheckParts;
  readonly #warning: string;
  #checks: RecurringWork | undefined;
  #lastFailure = '';

  constructor(parts: CheckParts, warning: string) {
    this.#parts = parts;
    this.#warning = warning;
    this.clock = parts.clock ?? systemClock;
  }

  /** May throw; the next check retries. */
  protected abstract repair(): Promise<void>;

  /** The first check comes after `everyMs`, or at once. */
  start(when: 'later' | 'now' = 'later'): void {
    this.#checks = new RecurringWork(this.clock, this.#parts.everyMs, () => this.check());
    if (when === 'now') this.#checks.begin();
  }

  /** Checks now, and once more after a check that runs; does nothing before the start. */
  look(): void {
    this.#checks?.request();
  }

  async close(): Promise<void> {
    await this.#checks?.close();
  }

  /** Never throws. Logs a failure once, until a success or another failure. */
  async check(): Promise<void> {
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
