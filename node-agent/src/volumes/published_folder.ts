import { type FSWatcher, watch } from 'node:fs';
import { type Clock, type Logger, RecurringWork } from '@hearth/common';
import { type PublishedRecord, readPublished } from './published_record.ts';

/**
 * Reports what is published on this node: at the start, after the folder has changed, and every so often, because a
 * watch of files may miss something. One reading at a time; a folder that cannot be read is logged, and the
 * listener then hears nothing.
 */
export class PublishedFolder {
  readonly #folder: string;
  readonly #logger: Logger;
  readonly #listener: (records: PublishedRecord[]) => Promise<void>;
  readonly #looks: RecurringWork;
  readonly #watcher: FSWatcher | undefined;
  #again = false;
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
    this.look();
  }

  /** Looks soon; a look under way is followed by another. */
  look(): void {
    this.#again = true;
    this.#looks.begin();
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
      const watcher = watch(this.#folder, () => this.look());
      watcher.on('error', (error) =>
        this.#logger.warn('failed to watch the folder of published volumes; polling it', { error }),
      );
      return watcher;
    } catch (error) {
      // Out of inotify instances, say: the timer sees everything a little later.
      this.#logger.warn('failed to watch the folder of published volumes; polling it', { error });
      return undefined;
    }
  }

  async #run(): Promise<void> {
    do {
      this.#again = false;
      try {
        await this.#listener(await readPublished(this.#folder));
        this.#lastWarning = '';
      } catch (thrown) {
        const { message } = thrown as Error;
        if (message !== this.#lastWarning)
          this.#logger.error('failed to read the records of published volumes', { error: thrown });
        this.#lastWarning = message;
      }
    } while (this.#again);
  }
}
