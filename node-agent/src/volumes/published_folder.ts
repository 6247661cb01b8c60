import { type FSWatcher, watch } from 'node:fs';
import { type Clock, type Logger, RecurringWork } from '@hearth/common';
import { type PublishedRecord, readPublished } from './published_record.ts';

/**
 * Reports the records of volumes published on this node: at the start, after each change of the folder, and
 * periodically, because a file watch may miss changes. Reads one at a time. Logs a folder that cannot be read and does
 * not call the listener.
 */
export class PublishedFolder {
  readonly #folder: string;
  readonly #logger: Logger;
  readonly #listener: (records: PublishedRecord[]) => Promise<void>;
  readonly #looks: RecurringWork;
  readonly #watcher: FSWatcher | undefined;
  #lastWarning = '';

  constructor(
    folder: string,
    scanMs: number,
    { logger, clock }: { logger: Logger; clock: Clock },
    listener: (records: PublishedRecord[]) => Promise<void>,
  ) {
    this.#folder = folder;
    this.#logger = logger;
    this.#listener = listener;
    this.#looks = new RecurringWork(clock, scanMs, () => this.#run());
    this.#watcher = this.#watch();
    this.requestRead();
  }

  /** Requests a read soon; a read in progress is followed by another one. */
  requestRead(): void {
    this.#looks.request();
  }

  async settled(): Promise<void> {
    await this.#looks.settled();
  }

  async close(): Promise<void> {
    this.#watcher?.close();
    await this.#looks.close();
  }

  #watch(): FSWatcher | undefined {
    try {
      const watcher = watch(this.#folder, () => this.requestRead());
      watcher.on('error', (error) =>
        this.#logger.warn('failed to watch the folder of published volumes; polling it', { error }),
      );
      return watcher;
    } catch (error) {
      // For example out of inotify instances; the timer then finds changes with a delay.
      this.#logger.warn('failed to watch the folder of published volumes; polling it', { error });
      return undefined;
    }
  }

  async #run(): Promise<void> {
    try {
      await this.#listener(await readPublished(this.#folder));
      this.#lastWarning = '';
    } catch (thrown) {
      const { message } = thrown as Error;
      if (message !== this.#lastWarning)
        this.#logger.error('failed to read the records of published volumes', { error: thrown });
      this.#lastWarning = message;
    }
  }
}
