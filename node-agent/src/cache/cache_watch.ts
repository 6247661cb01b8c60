import { type Clock, HearthError, type Logger, RecurringWork, systemClock } from '@hearth/common';
import type { CacheCheck, DirectoryFailure } from './cache_check.ts';

/** Periodically checks the cache directories of a serving agent, because disks fail and are repaired while it runs. */
export class CacheWatch {
  readonly #check: CacheCheck;
  readonly #refusals: () => Promise<DirectoryFailure[]>;
  readonly #logger: Logger;
  readonly #notify: (reason: string | undefined) => void;
  readonly #looks: RecurringWork;
  #reason: string | undefined;
  #failing = new Map<string, string>();
  #closed = false;

  /**
   * Calls `notify` once for each change: with the reason when no directory is usable, with undefined when one is again.
   * Logs each directory that fails and recovers; `refusals` are those of which the engine says so.
   */
  constructor(
    check: CacheCheck,
    refusals: () => Promise<DirectoryFailure[]>,
    everyMs: number,
    logger: Logger,
    notify: (reason: string | undefined) => void,
    clock: Clock = systemClock,
  ) {
    this.#check = check;
    this.#refusals = refusals;
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
    const checked = await this.#check.run().then(
      ({ failures }) => ({ failures, reason: undefined }),
      (thrown) => ({ failures: [], reason: HearthError.from(thrown).message }),
    );
    const refusals = await this.#refusals().catch(() => []);
    if (this.#closed) return;
    if (checked.reason === undefined) this.#noteDirectories([...refusals, ...checked.failures]);
    if (checked.reason === this.#reason) return;
    this.#reason = checked.reason;
    if (checked.reason === undefined) this.#logger.info('the cache is usable again');
    else this.#logger.error('lost the use of the cache', { reason: checked.reason });
    this.#notify(checked.reason);
  }

  #noteDirectories(failures: readonly DirectoryFailure[]): void {
    const failing = new Map(failures.map(({ path, reason }) => [path, reason]));
    for (const [path, reason] of failing) {
      if (!this.#failing.has(path)) this.#logger.error('a cache directory takes no new files', { path, reason });
    }
    for (const path of this.#failing.keys()) {
      if (!failing.has(path)) this.#logger.info('a cache directory takes new files again', { path });
    }
    this.#failing = failing;
  }
}
