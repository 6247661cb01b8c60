import { backOffMs, type Clock, HearthError, type Logger, sleep, systemClock } from '@hearth/common';
import type { KeyValue, Store, StoreEvent } from '../store/index.ts';

/** A table in memory, as its watch sees it. Each method returns a function that notifies the table's listeners. */
export interface WatchedTable {
  readonly prefix: string;
  /** Replaces the whole table by its state at a revision. */
  load(entries: readonly KeyValue[], revision: number): () => void;
  /** Applies the table's changes up to a revision, often none. */
  apply(events: readonly StoreEvent[], revision: number): () => void;
}

const backOff = { firstMs: 100, longestMs: 5_000 };

/**
 * Keeps tables below one prefix current: reads them again after the store compacted intermediate revisions, and waits
 * out outages. All tables show the same revision, so that no table shows a write without earlier writes of another.
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

  /** Must be called in the turn that created the watch, before it has read anything. */
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
        this.#notify((table) => table.load(below(table, entries, keyOf), revision));
        failures = 0;
        for await (const item of this.#store.watch(this.#prefix, revision + 1, { signal })) {
          if (item.kind === 'compacted') {
            this.#logger.info('reading a whole table again', { reason: item.reason });
            break;
          }
          this.#notify((table) => table.apply(below(table, item.events, keyOfEvent), item.revision));
        }
      } catch (thrown) {
        if (signal.aborted) return;
        const wait = backOffMs(this.#clock, failures++, backOff);
        this.#logger.warn('failed to read the store; retrying', {
          error: HearthError.from(thrown),
          pauseMs: Math.round(wait),
        });
        await sleep(this.#clock, wait, signal);
      }
    }
  }

  /** Calls listeners after all tables have changed. */
  #notify(change: (table: WatchedTable) => () => void): void {
    for (const notify of this.#tables.map(change)) notify();
  }
}

function below<T>({ prefix }: WatchedTable, all: readonly T[], key: (one: T) => string): readonly T[] {
  return all.filter((one) => key(one).startsWith(prefix));
}

const keyOf = ({ key }: KeyValue): string => key;

export const keyOfEvent = (event: StoreEvent): string => (event.kind === 'put' ? event.entry.key : event.key);
