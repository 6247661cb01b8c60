import { type Clock, HearthError, type Logger, sleep, systemClock } from '@hearth/common';
import type { KeyValue, Store, StoreEvent } from '../store/index.ts';

/** A table in memory, as its watch sees it. Each call returns what notifies the table's listeners of it. */
export interface WatchedTable {
  readonly prefix: string;
  /** The whole of the table at a revision. */
  fill(entries: readonly KeyValue[], revision: number): () => void;
  /** Takes the table's changes up to a revision; often none. */
  hear(events: readonly StoreEvent[], revision: number): () => void;
}

const firstPauseMs = 100;
const longestPauseMs = 5_000;

/**
 * Keeps tables below one prefix current: reads them again after the store forgot the revisions in between, and waits for
 * the store while it is away. All of them show the store at the same revision, so that none shows a write without those
 * before it in another.
 */
export class TableWatch {
  readonly #store: Store;
  readonly #prefix: string;
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #tables: WatchedTable[] = [];
  readonly #stop = new AbortController();
  readonly #ended: Promise<void>;

  constructor(store: Store, prefix: string, logger: Logger, clock: Clock = systemClock) {
    this.#store = store;
    this.#prefix = prefix;
    this.#logger = logger.child({ table: prefix });
    this.#clock = clock;
    this.#ended = this.#run();
  }

  /** To be called in the turn in which the watch was made, before it has read anything. */
  add(table: WatchedTable): void {
    this.#tables.push(table);
  }

  /** Aborts when the watch ends. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#ended;
  }

  async #run(): Promise<void> {
    const signal = this.#stop.signal;
    for (let failures = 0; !signal.aborted; ) {
      try {
        const { entries, revision } = await this.#store.range(this.#prefix, { signal });
        this.#notify((table) => table.fill(below(table, entries, keyOf), revision));
        failures = 0;
        for await (const item of this.#store.watch(this.#prefix, revision + 1, { signal })) {
          if (item.kind === 'compacted') {
            this.#logger.info('reading a whole table again', { reason: item.reason });
            break;
          }
          this.#notify((table) => table.hear(below(table, item.events, keyOfEvent), item.revision));
        }
      } catch (thrown) {
        if (signal.aborted) return;
        const wait = Math.min(longestPauseMs, firstPauseMs * 2 ** failures++) * (0.5 + this.#clock.random() / 2);
        this.#logger.warn('failed to read the store; retrying', {
          error: HearthError.from(thrown),
          pauseMs: Math.round(wait),
        });
        await sleep(this.#clock, wait, signal);
      }
    }
  }

  /** Listeners are called when all tables have changed. */
  #notify(change: (table: WatchedTable) => () => void): void {
    for (const notify of this.#tables.map(change)) notify();
  }
}

function below<T>({ prefix }: WatchedTable, all: readonly T[], key: (one: T) => string): readonly T[] {
  return all.filter((one) => key(one).startsWith(prefix));
}

const keyOf = ({ key }: KeyValue): string => key;

export const keyOfEvent = (event: StoreEvent): string => (event.kind === 'put' ? event.entry.key : event.key);
