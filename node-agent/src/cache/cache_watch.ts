import { type Clock, HearthError, type Logger, RecurringWork, systemClock } from '@hearth/common';
import type { CacheCheck } from './cache_check.ts';

/** Looks at the cache directories of a serving agent every so often: disks fail, and are mended, while it runs. */
export class CacheWatch {
  readonly #check: CacheCheck;
  readonly #logger: Logger;
  readonly #notify: (reason: string | undefined) => void;
  readonly #looks: RecurringWork;
  #reason: string | undefined;
  #closed = false;

  /** `notify` is given the reason why they cannot be used, or undefined when they can be again; once for each change. */
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

  /** Does not wait for a look under way: a disk that hangs keeps no agent from ending. */
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
