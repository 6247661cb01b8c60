import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { HearthError } from '@hearth/common';
import type { BootClock } from './boot_clock.ts';
import { encodeText, prefixEnd } from './keys.ts';
import { openSqliteFile, type SqliteFile, sqliteError } from './sqlite_file.ts';
import { type EntryRow, entryOf, type HistoryLimits, type HistoryPage, SqliteHistory } from './sqlite_history.ts';
import type {
  Compare,
  KeyValue,
  LeaseGrant,
  LeaseId,
  Operation,
  RangeResult,
  Transaction,
  TransactionResult,
} from './store.ts';

export interface SqliteLimits extends HistoryLimits {
  /** Time that a call waits for other writers before failing with `Unavailable`, ms. */
  readonly busyTimeoutMs: number;
}

export const defaultSqliteLimits: SqliteLimits = { events: 20_000, bytes: 64 * 1024 * 1024, busyTimeoutMs: 5_000 };

interface LeaseRow {
  readonly id: number;
  readonly ttl_ms: number;
}

/**
 * The synchronous store in one SQLite file: one thread and one connection among possibly many processes. The caller has
 * checked arguments. Every call first ends expired leases of all processes, so no caller ever sees an expired key.
 */
export class SqliteDatabase {
  readonly #file: SqliteFile;
  readonly #database: DatabaseSync;
  readonly #clock: BootClock;
  readonly #history: SqliteHistory;
  readonly #prepared = new Map<string, StatementSync>();
  #ownWrites = 0;

  constructor(path: string, clock: BootClock, limits: SqliteLimits = defaultSqliteLimits) {
    this.#clock = clock;
    this.#file = openSqliteFile(path, limits.busyTimeoutMs);
    this.#database = this.#file.database;
    this.#history = new SqliteHistory(this.#database, limits);
  }

  /** Identity of the file, created with it. */
  get identity(): string {
    return this.#file.identity;
  }

  /** True when the file was removed or replaced; this object then has data that no other process sees. */
  replaced(): boolean {
    return this.#file.replaced();
  }

  close(): void {
    if (this.#database.isOpen) this.#database.close();
  }

  get(key: string): KeyValue | undefined {
    return this.#read(() => {
      const row = this.#entry(encodeText(key));
      return row === undefined ? undefined : entryOf(row).entry;
    });
  }

  range(prefix: string): RangeResult {
    return this.#read(() => ({
      entries: this.#rows(prefix).map((row) => entryOf(row).entry),
      revision: this.#history.meta().revision,
    }));
  }

  revision(): number {
    return this.#read(() => this.#history.meta().revision);
  }

  transact({ compare, success, failure = [] }: Transaction): TransactionResult {
    return this.#write(() => {
      const succeeded = compare.every((condition) => this.#holds(condition));
      const revision = this.#history.meta().revision + 1;
      const changes: (EntryRow | { key: Uint8Array })[] = [];
      const deleted: number[] = [];
      for (const operation of succeeded ? success : failure) {
        const before = changes.length;
        if (operation.kind === 'put') changes.push(this.#put(operation, revision));
        else changes.push(...this.#delete(operation));
        deleted.push(operation.kind === 'put' ? 0 : changes.length - before);
      }
      if (changes.length === 0) return { succeeded, revision: revision - 1, deleted };
      this.#history.append(revision, changes);
      return { succeeded, revision, deleted };
    });
  }

  grantLease(ttlSeconds: number): LeaseGrant {
    return this.#write(() => {
      const ttlMs = ttlSeconds * 1000;
      const { lastInsertRowid } = this.#statement(
        'INSERT INTO lease (ttl_ms, expires_at, boot_id) VALUES (?, ?, ?)',
      ).run(ttlMs, this.#clock.now() + ttlMs, this.#clock.bootId);
      return { lease: String(lastInsertRowid), ttlSeconds };
    });
  }

  keepAlive(lease: LeaseId): number {
    return this.#write(() => {
      const row = this.#lease(lease);
      this.#statement('UPDATE lease SET expires_at = ? WHERE id = ?').run(this.#clock.now() + row.ttl_ms, row.id);
      return row.ttl_ms / 1000;
    });
  }

  revokeLease(lease: LeaseId): void {
    this.#write(() => this.#endLease(Number(lease)));
  }

  compact(revision: number): void {
    this.#write(() => {
      const newest = this.#history.meta().revision;
      if (revision > newest) {
        throw new HearthError(
          'InvalidArgument',
          `Revision ${revision} cannot be compacted: the newest is ${newest}. Name a revision that was returned.`,
        );
      }
      this.#history.compact(revision);
    });
  }

  /** Events from `from` on; see SqliteHistory.read. */
  events(prefix: string, from: number): HistoryPage {
    return this.#read(() => this.#history.read(prefix, from));
  }

  /** Changes with every change of the file by any process, including leases found expired here. */
  changeCounter(): string {
    return this.#guard(() => {
      this.#expireLeases();
      const { data_version: others } = this.#statement('PRAGMA data_version').get() as { data_version: number };
      return `${others}.${this.#ownWrites}`;
    });
  }

  #statement(sql: string): StatementSync {
    let statement = this.#prepared.get(sql);
    if (statement === undefined) {
      statement = this.#database.prepare(sql);
      this.#prepared.set(sql, statement);
    }
    return statement;
  }

  #guard<T>(body: () => T): T {
    try {
      return body();
    } catch (thrown) {
      throw sqliteError(this.#file.path, thrown);
    }
  }

  #transaction<T>(begin: string, body: () => T): T {
    this.#database.exec(begin);
    try {
      const result = body();
      this.#database.exec('COMMIT');
      return result;
    } catch (thrown) {
      // Some errors (a full disk) have rolled back already.
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
      throw thrown;
    }
  }

  /** Runs the whole body on one snapshot. */
  #read<T>(body: () => T): T {
    return this.#guard(() => {
      this.#expireLeases();
      return this.#transaction('BEGIN', body);
    });
  }

  #write<T>(body: () => T): T {
    return this.#guard(() => {
      // Outside the transaction, so that expiry persists even if the body fails and rolls back.
      this.#expireLeases();
      const result = this.#transaction('BEGIN IMMEDIATE', () => {
        for (const { id } of this.#expired()) this.#endLease(id);
        return body();
      });
      this.#ownWrites++;
      return result;
    });
  }

  #expireLeases(): void {
    if (this.#expired().length === 0) return;
    this.#transaction('BEGIN IMMEDIATE', () => {
      // Read again under the lock: a lease may have been kept alive in between.
      for (const { id } of this.#expired()) this.#endLease(id);
    });
    this.#ownWrites++;
  }

  /** A lease of another boot is over, because its holder ended with that boot. */
  #expired(): LeaseRow[] {
    const sql = 'SELECT id, ttl_ms FROM lease WHERE expires_at <= ? OR boot_id <> ? ORDER BY expires_at, id';
    return this.#statement(sql).all(this.#clock.now(), this.#clock.bootId) as unknown as LeaseRow[];
  }

  #lease(lease: LeaseId): LeaseRow {
    const row = this.#statement('SELECT id, ttl_ms FROM lease WHERE id = CAST(? AS INTEGER)').get(lease);
    if (row === undefined) {
      throw new HearthError('NotFound', `The lease ${lease} has expired or was revoked. Ask for a new one.`);
    }
    return row as unknown as LeaseRow;
  }

  #endLease(id: number): void {
    const keys = this.#statement('SELECT key FROM entry WHERE lease = ? ORDER BY key').all(id);
    this.#statement('DELETE FROM entry WHERE lease = ?').run(id);
    this.#statement('DELETE FROM lease WHERE id = ?').run(id);
    if (keys.length === 0) return;
    this.#history.append(this.#history.meta().revision + 1, keys as unknown as { key: Uint8Array }[]);
  }

  #entry(key: Uint8Array): EntryRow | undefined {
    return this.#statement('SELECT * FROM entry WHERE key = ?').get(key) as unknown as EntryRow | undefined;
  }

  #rows(prefix: string): EntryRow[] {
    const start = encodeText(prefix);
    const sql = 'SELECT * FROM entry WHERE key >= ? AND (?2 IS NULL OR key < ?2) ORDER BY key';
    return this.#statement(sql).all(start, prefixEnd(start) ?? null) as unknown as EntryRow[];
  }

  #holds(condition: Compare): boolean {
    const row = this.#entry(encodeText(condition.key));
    if ('exists' in condition) return (row !== undefined) === condition.exists;
    if ('modRevision' in condition) return (row?.mod_revision ?? 0) === condition.modRevision;
    if ('createRevision' in condition) return (row?.create_revision ?? 0) === condition.createRevision;
    return row !== undefined && Buffer.compare(row.value, encodeText(condition.value)) === 0;
  }

  #put({ key: text, value, lease }: Operation & { kind: 'put' }, revision: number): EntryRow {
    const key = encodeText(text);
    const former = this.#entry(key);
    const row: EntryRow = {
      key,
      value: encodeText(value),
      create_revision: former?.create_revision ?? revision,
      mod_revision: revision,
      version: (former?.version ?? 0) + 1,
      lease: lease === undefined ? null : this.#lease(lease).id,
    };
    this.#statement('INSERT OR REPLACE INTO entry VALUES (?, ?, ?, ?, ?, ?)').run(
      row.key,
      row.value,
      row.create_revision,
      row.mod_revision,
      row.version,
      row.lease,
    );
    return row;
  }

  #delete(operation: Operation & { kind: 'delete' | 'deletePrefix' }): { key: Uint8Array }[] {
    const rows =
      operation.kind === 'deletePrefix' ? this.#rows(operation.prefix) : [this.#entry(encodeText(operation.key))];
    const present = rows.filter((row) => row !== undefined);
    for (const { key } of present) this.#statement('DELETE FROM entry WHERE key = ?').run(key);
    return present.map(({ key }) => ({ key }));
  }
}
