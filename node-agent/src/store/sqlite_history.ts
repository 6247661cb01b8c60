import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { decodeText, encodeText, prefixEnd } from './keys.ts';
import type { StoreEvent } from './store.ts';

export interface HistoryLimits {
  /** Maximum number of events, and bytes of their keys and values; above either, the older half is deleted. */
  readonly events: number;
  readonly bytes: number;
}

/** A read stops after this many events or bytes, at the end of a revision. */
const pageEvents = 256;
const pageBytes = 4 * 1024 * 1024;

export type HistoryPage =
  | { readonly kind: 'events'; readonly events: StoreEvent[]; readonly revision: number; readonly next: number }
  | { readonly kind: 'compacted'; readonly reason: string };

export interface EntryRow {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
  readonly create_revision: number;
  readonly mod_revision: number;
  readonly version: number;
  readonly lease: number | null;
}

interface EventRow extends Omit<EntryRow, 'value' | 'mod_revision'> {
  readonly revision: number;
  readonly value: Uint8Array | null;
}

export interface MetaRow {
  readonly revision: number;
  readonly compacted: number;
  readonly event_count: number;
  readonly event_bytes: number;
}

// Size of an event beyond key and value, so that the byte limit also bounds many small events.
const eventOverheadBytes = 64;

/** The event table. Callers run every method inside a transaction. */
export class SqliteHistory {
  readonly #meta: StatementSync;
  readonly #insert: StatementSync;
  readonly #count: StatementSync;
  readonly #select: StatementSync;
  readonly #sizes: StatementSync;
  readonly #forget: StatementSync;
  readonly #forgotten: StatementSync;
  readonly #limits: HistoryLimits;

  constructor(database: DatabaseSync, limits: HistoryLimits) {
    this.#limits = limits;
    this.#meta = database.prepare('SELECT revision, compacted, event_count, event_bytes FROM meta');
    this.#insert = database.prepare('INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?)');
    this.#count = database.prepare(
      'UPDATE meta SET revision = ?, event_count = event_count + ?, event_bytes = event_bytes + ?',
    );
    this.#select = database.prepare(
      `SELECT revision, key, value, create_revision, version, lease FROM event
       WHERE revision >= ? AND key >= ? AND (?3 IS NULL OR key < ?3) ORDER BY revision, sequence`,
    );
    this.#sizes = database.prepare(
      `SELECT revision, count(*) AS events, sum(length(key) + ifnull(length(value), 0) + ${eventOverheadBytes}) AS bytes
       FROM event WHERE revision < ? GROUP BY revision ORDER BY revision`,
    );
    this.#forget = database.prepare('DELETE FROM event WHERE revision < ?');
    this.#forgotten = database.prepare(
      'UPDATE meta SET compacted = ?, event_count = event_count - ?, event_bytes = event_bytes - ?',
    );
  }

  meta(): MetaRow {
    return this.#meta.get() as unknown as MetaRow;
  }

  /** Appends the changes of one revision, advances the store to it and enforces the limits. */
  append(revision: number, changes: readonly (EntryRow | { readonly key: Uint8Array })[]): void {
    let bytes = 0;
    for (const [sequence, change] of changes.entries()) {
      bytes += change.key.length + eventOverheadBytes;
      if ('value' in change) {
        bytes += change.value.length;
        const { key, value, create_revision, version, lease } = change;
        this.#insert.run(revision, sequence, key, value, create_revision, version, lease);
      } else {
        this.#insert.run(revision, sequence, change.key, null, 0, 0, null);
      }
    }
    this.#count.run(revision, changes.length, bytes);
    const meta = this.meta();
    if (meta.event_count > this.#limits.events || meta.event_bytes > this.#limits.bytes) this.#halve(meta);
  }

  /** Always keeps the newest revision, however large. */
  #halve(meta: MetaRow): void {
    let events = meta.event_count;
    let bytes = meta.event_bytes;
    let keepFrom = meta.compacted;
    for (const row of this.#sizes.iterate(meta.revision)) {
      const size = row as unknown as { revision: number; events: number; bytes: number };
      if (events <= this.#limits.events / 2 && bytes <= this.#limits.bytes / 2) break;
      events -= size.events;
      bytes -= size.bytes;
      keepFrom = size.revision + 1;
    }
    this.compact(keepFrom);
  }

  /** Deletes events before `revision`, which must not exceed the newest. */
  compact(revision: number): void {
    if (revision <= this.meta().compacted) return;
    let events = 0;
    let bytes = 0;
    for (const row of this.#sizes.iterate(revision)) {
      events += Number(row.events);
      bytes += Number(row.bytes);
    }
    this.#forget.run(revision);
    this.#forgotten.run(revision, events, bytes);
  }

  /** The next events of a prefix; `next` is the position to continue from, also without events. */
  read(prefix: string, from: number): HistoryPage {
    const meta = this.meta();
    if (from < meta.compacted) {
      return { kind: 'compacted', reason: `revision ${from} is no longer kept; the oldest is ${meta.compacted}` };
    }
    if (from > meta.revision + 1) {
      return { kind: 'compacted', reason: `the store is at revision ${meta.revision}, before the ${from} asked for` };
    }
    const start = encodeText(prefix);
    const events: StoreEvent[] = [];
    let bytes = 0;
    let last = from - 1;
    for (const row of this.#select.iterate(from, start, prefixEnd(start) ?? null)) {
      const event = row as unknown as EventRow;
      if (event.revision !== last && (events.length >= pageEvents || bytes >= pageBytes)) {
        return { kind: 'events', events, revision: last, next: last + 1 };
      }
      last = event.revision;
      bytes += event.key.length + (event.value?.length ?? 0);
      events.push(eventOf(event));
    }
    return { kind: 'events', events, revision: last, next: meta.revision + 1 };
  }
}

function textOf(bytes: Uint8Array): string {
  return decodeText(bytes) ?? '';
}

export function entryOf(row: EntryRow): StoreEvent & { kind: 'put' } {
  return {
    kind: 'put',
    entry: {
      key: textOf(row.key),
      value: textOf(row.value),
      createRevision: row.create_revision,
      modRevision: row.mod_revision,
      version: row.version,
      lease: row.lease === null ? undefined : String(row.lease),
    },
  };
}

function eventOf(row: EventRow): StoreEvent {
  if (row.value === null) return { kind: 'delete', key: textOf(row.key), revision: row.revision };
  return entryOf({ ...row, value: row.value, mod_revision: row.revision });
}
