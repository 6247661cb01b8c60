import { HearthError, type Logger } from '@hearth/common';
import type { z } from 'zod';
import type { KeyValue, StoreEvent } from '../store/index.ts';
import type { RecordTable, Row } from './table.ts';
import { keyOfEvent, TableWatch } from './table_watch.ts';
import { unlessAborted } from './wait.ts';

/** `before` undefined: created; `after` undefined: deleted. */
export interface Change<T> {
  id: string;
  before: T | undefined;
  after: T | undefined;
}

/** `reread`: found by reading the whole table, as at the start or after the store was replaced. */
export type ChangeListener<T> = (changes: readonly Change<T>[], how: { reread: boolean }) => void;

/**
 * A table in memory, kept current by a watch; keeps the last known state during outages of the store. Calls listeners
 * after each change, in the order of revisions. Logs unreadable records and treats them as absent.
 */
export class Mirror<S extends z.ZodObject> {
  readonly #table: RecordTable<S>;
  readonly #logger: Logger;
  readonly #rows = new Map<string, Row<z.output<S>>>();
  readonly #listeners = new Set<ChangeListener<z.output<S>>>();
  readonly #loaded = Promise.withResolvers<void>();
  readonly #watch: TableWatch;
  #revision = 0;

  /** `watch`: a watch shared by several tables, created in the same turn; default: one of its own. */
  constructor(table: RecordTable<S>, logger: Logger, watch = new TableWatch(table.store, table.prefix, logger)) {
    this.#table = table;
    this.#logger = logger.child({ table: table.prefix });
    this.#watch = watch;
    watch.add({
      prefix: table.prefix,
      load: (entries, revision) => this.#load(entries, revision),
      apply: (events, revision) => this.#apply(events, revision),
    });
  }

  /** Resolves when the first state is loaded. */
  async ready(signal?: AbortSignal): Promise<void> {
    await unlessAborted(this.#loaded.promise, signal, this.#watch.signal);
  }

  /** The store revision up to which all changes have been seen. */
  get revision(): number {
    return this.#revision;
  }

  get(id: string): z.output<S> | undefined {
    return this.#rows.get(id)?.value;
  }

  row(id: string): Row<z.output<S>> | undefined {
    return this.#rows.get(id);
  }

  rows(): Row<z.output<S>>[] {
    return [...this.#rows.values()];
  }

  values(): z.output<S>[] {
    return this.rows().map((row) => row.value);
  }

  /** Returns a function that unsubscribes. */
  onChange(listener: ChangeListener<z.output<S>>): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /**
   * Waits until `found` returns a value, calling it now and after every change. Throws `Cancelled` when the signal
   * aborts.
   */
  async waitFor<R>(found: () => R | undefined, signal: AbortSignal): Promise<R> {
    const now = found();
    if (now !== undefined) return now;
    const { promise, resolve, reject } = Promise.withResolvers<R>();
    const look = () => {
      try {
        const result = found();
        if (result !== undefined) resolve(result);
      } catch (thrown) {
        reject(thrown);
      }
    };
    const off = this.onChange(look);
    try {
      return await unlessAborted(promise, signal, this.#watch.signal);
    } finally {
      off();
    }
  }

  /** Waits until the mirror has seen a write of this table that returned `revision`. */
  async caughtUp(revision: number, signal: AbortSignal): Promise<void> {
    await this.waitFor(() => (this.#revision >= revision ? true : undefined), signal);
  }

  /** Makes all waiters check again, after a change of other state that they depend on. */
  touch(): void {
    this.#notify([], false);
  }

  /** Ends the watch, also for other tables that share it. */
  async close(): Promise<void> {
    await this.#watch.close();
  }

  #load(entries: readonly KeyValue[], revision: number): () => void {
    const present = new Map(this.#readable(entries).map((row) => [row.id, row]));
    const changes: Change<z.output<S>>[] = [];
    for (const [id, row] of this.#rows) {
      if (!present.has(id)) changes.push({ id, before: row.value, after: undefined });
    }
    for (const [id, row] of present) {
      const before = this.#rows.get(id);
      if (before?.modRevision !== row.modRevision) changes.push({ id, before: before?.value, after: row.value });
    }
    this.#rows.clear();
    for (const [id, row] of present) this.#rows.set(id, row);
    this.#revision = revision;
    this.#loaded.resolve();
    return () => this.#notify(changes, true);
  }

  #apply(events: readonly StoreEvent[], revision: number): () => void {
    this.#revision = revision;
    const changes = events.flatMap((event) => this.#applyOne(event));
    return () => {
      if (events.length > 0) this.#notify(changes, false);
    };
  }

  #readable(entries: readonly KeyValue[]): Row<z.output<S>>[] {
    return this.#table.readable(entries, (error) => this.#logger.error('failed to parse a record', { error }));
  }

  #applyOne(event: StoreEvent): Change<z.output<S>>[] {
    const id = keyOfEvent(event).slice(this.#table.prefix.length);
    const before = this.#rows.get(id)?.value;
    this.#rows.delete(id);
    const [row] = this.#readable(event.kind === 'put' ? [event.entry] : []);
    if (row !== undefined) {
      this.#rows.set(id, row);
      return [{ id, before, after: row.value }];
    }
    return before === undefined ? [] : [{ id, before, after: undefined }];
  }

  /** Called even without changes: `caughtUp` waits for revisions whose records were unreadable. */
  #notify(changes: readonly Change<z.output<S>>[], reread: boolean): void {
    for (const listener of [...this.#listeners]) {
      try {
        listener(changes, { reread });
      } catch (thrown) {
        this.#logger.error('an internal change listener failed', { error: HearthError.from(thrown) });
      }
    }
  }
}
