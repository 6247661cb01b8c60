import { HearthError, type Logger } from '@hearth/common';
import type { z } from 'zod';
import type { StoreEvent } from '../store/store.ts';
import type { RecordTable, Row } from './table.ts';
import { pause, unlessAborted } from './wait.ts';

/** `before` undefined: came into being; `after` undefined: vanished. */
export interface Change<T> {
  id: string;
  before: T | undefined;
  after: T | undefined;
}

/** `reread`: seen by reading the whole table anew, as at the start or after the store was replaced. */
export type ChangeListener<T> = (changes: readonly Change<T>[], how: { reread: boolean }) => void;

const firstPauseMs = 100;
const longestPauseMs = 5_000;

/**
 * A table in memory, kept current by a watch: read anew after the store forgot the revisions in between, and
 * waited for while the store is away, with the last known state meanwhile. Listeners are called after the
 * state has changed, in the order of revisions. Records that cannot be read are logged and treated as absent.
 */
export class Mirror<S extends z.ZodType> {
  readonly #table: RecordTable<S>;
  readonly #logger: Logger;
  readonly #rows = new Map<string, Row<z.output<S>>>();
  readonly #listeners = new Set<ChangeListener<z.output<S>>>();
  readonly #stop = new AbortController();
  readonly #filled = Promise.withResolvers<void>();
  readonly #ended: Promise<void>;
  #revision = 0;

  constructor(table: RecordTable<S>, logger: Logger) {
    this.#table = table;
    this.#logger = logger.child({ table: table.prefix });
    this.#ended = this.#run();
  }

  /** Resolves when the first state is there. */
  async ready(signal?: AbortSignal): Promise<void> {
    await unlessAborted(this.#filled.promise, signal, this.#stop.signal);
  }

  /** Of the store: everything until then has been heard. */
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

  /** Returns the function that ends it. */
  onChange(listener: ChangeListener<z.output<S>>): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Waits until `found` gives something, looking now and after every change. `Cancelled` when the signal ends it. */
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
      return await unlessAborted(promise, signal, this.#stop.signal);
    } finally {
      off();
    }
  }

  /** Waits until the mirror has seen a write of this table that returned `revision`. */
  async caughtUp(revision: number, signal: AbortSignal): Promise<void> {
    await this.waitFor(() => (this.#revision >= revision ? true : undefined), signal);
  }

  /** Makes everybody who waits look again, when something else that they look at has changed. */
  touch(): void {
    this.#notify([], false);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#ended;
  }

  async #run(): Promise<void> {
    const signal = this.#stop.signal;
    for (let failures = 0; !signal.aborted; ) {
      try {
        await this.#fill(signal);
        failures = 0;
        for await (const item of this.#table.store.watch(this.#table.prefix, this.#revision + 1, { signal })) {
          if (item.kind === 'compacted') {
            this.#logger.info('reading the table anew', { reason: item.reason });
            break;
          }
          this.#revision = item.revision;
          this.#notify(
            item.events.flatMap((event) => this.#apply(event)),
            false,
          );
        }
      } catch (thrown) {
        if (signal.aborted) return;
        const wait = Math.min(longestPauseMs, firstPauseMs * 2 ** failures++) * (0.5 + Math.random() / 2);
        this.#logger.warn('the store cannot be read; trying again', {
          error: HearthError.from(thrown),
          pauseMs: Math.round(wait),
        });
        await pause(wait, signal);
      }
    }
  }

  async #fill(signal: AbortSignal): Promise<void> {
    const { rows, revision } = await this.#table.list(
      (error) => this.#logger.error('a record is malformed', { error }),
      { signal },
    );
    const present = new Map(rows.map((row) => [row.id, row]));
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
    this.#filled.resolve();
    this.#notify(changes, true);
  }

  #apply(event: StoreEvent): Change<z.output<S>>[] {
    const key = event.kind === 'put' ? event.entry.key : event.key;
    const id = key.slice(this.#table.prefix.length);
    const before = this.#rows.get(id)?.value;
    this.#rows.delete(id);
    if (event.kind === 'put') {
      try {
        const row = this.#table.decode(event.entry);
        this.#rows.set(id, row);
        return [{ id, before, after: row.value }];
      } catch (thrown) {
        this.#logger.error('a record is malformed', { error: HearthError.from(thrown) });
      }
    }
    return before === undefined ? [] : [{ id, before, after: undefined }];
  }

  /** Called also without changes: `caughtUp` waits for revisions whose records could not be read. */
  #notify(changes: readonly Change<z.output<S>>[], reread: boolean): void {
    for (const listener of [...this.#listeners]) {
      try {
        listener(changes, { reread });
      } catch (thrown) {
        this.#logger.error('a listener failed', { error: HearthError.from(thrown) });
      }
    }
  }
}
