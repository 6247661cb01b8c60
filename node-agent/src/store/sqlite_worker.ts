/**
 * The thread that owns one SqliteDatabase, because SQLite's calls block and agents must not. One answer for each
 * message; a query for events is answered once there are some.
 */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { type ErrorCode, HearthError, systemClock } from '@hearth/common';
import { type BootClockFiles, openBootClock } from './boot_clock.ts';
import { SqliteDatabase, type SqliteLimits } from './sqlite_database.ts';
import type { HistoryPage } from './sqlite_history.ts';

export interface SqliteWorkerData {
  readonly path: string;
  readonly clock: BootClockFiles;
  readonly limits: SqliteLimits;
}

type Method = 'get' | 'range' | 'revision' | 'transact' | 'grantLease' | 'keepAlive' | 'revokeLease' | 'compact';
export type SqliteCalls = Pick<SqliteDatabase, Method>;

export interface EventsRequest {
  readonly prefix: string;
  readonly from: number;
  /** Identity of the file that the revisions belong to; undefined: the current file. */
  readonly identity: string | undefined;
}

export type SqliteRequest =
  | { readonly id: number; readonly kind: 'call'; readonly method: Method; readonly parameters: unknown[] }
  | { readonly id: number; readonly kind: 'events'; readonly query: EventsRequest }
  /** The caller of `id` no longer waits. */
  | { readonly id: number; readonly kind: 'forget' }
  | { readonly kind: 'close' };

export type EventsAnswer = HistoryPage & { readonly identity: string };

export type SqliteReply =
  | { readonly id: number; readonly result: unknown }
  | { readonly id: number; readonly error: { readonly code: ErrorCode; readonly message: string } };

/** Polling interval for changes by other processes while a query waits for events. */
const pollMs = 50;
/** Interval between checks that the path still names the same file. */
const replacedCheckMs = 250;

class SqliteWorker {
  readonly #port: MessagePort;
  readonly #data: SqliteWorkerData;
  readonly #parked = new Map<number, EventsRequest>();
  #database: SqliteDatabase;
  #checkedAt = 0;
  #seen = '';
  #cancel: (() => void) | undefined;

  constructor(port: MessagePort, data: SqliteWorkerData) {
    this.#port = port;
    this.#data = data;
    this.#database = this.#open();
    port.on('message', (request: SqliteRequest) => this.#receive(request));
  }

  #open(): SqliteDatabase {
    return new SqliteDatabase(this.#data.path, openBootClock(this.#data.clock), this.#data.limits);
  }

  #receive(request: SqliteRequest): void {
    switch (request.kind) {
      case 'call':
        this.#answer(request.id, () => this.#call(request.method, request.parameters));
        // Reports the thread's own writes without waiting for the next poll.
        if (this.#parked.size > 0) this.#poll();
        break;
      case 'events':
        this.#ask(request.id, request.query);
        if (this.#parked.size > 0) this.#cancel ??= systemClock.every(pollMs, () => this.#poll());
        break;
      case 'forget':
        this.#parked.delete(request.id);
        break;
      case 'close':
        this.#cancel?.();
        this.#database.close();
        this.#port.close();
        break;
    }
  }

  #call(method: Method, parameters: unknown[]): unknown {
    this.#followReplacement();
    const call = this.#database[method] as (...given: unknown[]) => unknown;
    return call.apply(this.#database, parameters);
  }

  /** Switches to the current file after a removal or replacement, because all processes must see one store. */
  #followReplacement(): void {
    const now = systemClock.now();
    if (now - this.#checkedAt < replacedCheckMs) return;
    if (this.#database.replaced()) {
      const successor = this.#open();
      this.#database.close();
      this.#database = successor;
      this.#seen = '';
    }
    this.#checkedAt = now;
  }

  /** Answers with events, or keeps the query until there are some. */
  #ask(id: number, query: EventsRequest): void {
    this.#parked.delete(id);
    this.#answer(id, (): EventsAnswer | undefined => {
      this.#followReplacement();
      const identity = this.#database.identity;
      if (query.identity !== undefined && query.identity !== identity) {
        return { kind: 'compacted', reason: 'the store was replaced by another', identity };
      }
      const page = this.#database.events(query.prefix, query.from);
      if (page.kind === 'compacted' || page.events.length > 0) return { ...page, identity };
      // No events yet; skip irrelevant events the next time.
      this.#parked.set(id, { ...query, identity, from: page.next });
      return undefined;
    });
  }

  #poll(): void {
    if (this.#parked.size === 0) {
      this.#cancel?.();
      this.#cancel = undefined;
      return;
    }
    try {
      this.#followReplacement();
      const seen = this.#database.changeCounter();
      if (seen === this.#seen) return;
      this.#seen = seen;
    } catch {
      // The next poll tries again; calls report the same error.
      return;
    }
    for (const [id, query] of [...this.#parked]) this.#ask(id, query);
  }

  /** Undefined from a query means: no answer yet. */
  #answer(id: number, body: () => unknown): void {
    try {
      const result = body();
      if (!this.#parked.has(id)) this.#port.postMessage({ id, result } satisfies SqliteReply);
    } catch (thrown) {
      const { code, message } = HearthError.from(thrown);
      this.#port.postMessage({ id, error: { code, message } } satisfies SqliteReply);
    }
  }
}

if (parentPort === null) throw new HearthError('Internal', 'sqlite_worker is started as a worker thread only.');
try {
  new SqliteWorker(parentPort, workerData as SqliteWorkerData);
  parentPort.postMessage({ id: 0, result: undefined } satisfies SqliteReply);
} catch (thrown) {
  const { code, message } = HearthError.from(thrown);
  parentPort.postMessage({ id: 0, error: { code, message } } satisfies SqliteReply);
  parentPort.close();
}
