import { type Clock, HearthError, type Logger, RecurringWork, systemClock } from '@hearth/common';
import type { CacheCheck } from './cache_check.ts';

/** Periodically checks the cache directories of a serving agent, because disks fail and are repaired while it runs. */
export class CacheWatch {
  readonly #check: CacheCheck;
  readonly #logger: Logger;
  readonly #notify: (reason: string | undefined) => void;
  readonly #looks: RecurringWork;
  #reason: string | undefined;
  #closed = false;

  /**
   * Calls `notify` once for each change: with the reason when the directories become unusable, with undefined when they
   * recover.
   */
  constructor(
    check: CacheCheck,
    everyMs: number,
    logger: Logger,
    notify: (reason: string | undefined) => void,
    clock: Clock = systemClock,
  ) {
    this.#check = check;
    this.#logger = logger;
    this.#notify = notify;
    this.#looks = new RecurringWork(clock, everyMs, () => this.#look());
  }

  /** Does not wait for a running check, so that a hanging disk cannot block shutdown. */
  close(): void {
    this.#closed = true;
    void this.#looks.close();
  }

  async #look(): Promise<void> {
    const reason = await this.#check.run().then(
      () => undefined,
      (thrown) => HearthError.from(thrown).message,
    );
    if (this.#closed || reason === this.#reason) return;
    this.#reason = reason;
    if (reason === undefined) this.#logger.info('the cache is usable again');
    else this.#logger.error('lost the use of the cache', { reason });
    this.#notify(reason);
  }
}
