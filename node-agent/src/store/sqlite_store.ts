import { extname, resolve } from 'node:path';
import { Worker } from 'node:worker_threads';
import { backOffMs, type Clock, HearthError, sleep, systemClock } from '@hearth/common';
import { type BootClockFiles, kernelClockFiles } from './boot_clock.ts';
import { checkKey, checkLease, checkPrefix, checkRevision, checkTransaction, checkTtl } from './check.ts';
import { bounded, cancelled } from './deadline.ts';
import { defaultSqliteLimits, type SqliteLimits } from './sqlite_database.ts';
import type {
  EventsAnswer,
  EventsRequest,
  SqliteCalls,
  SqliteReply,
  SqliteRequest,
  SqliteWorkerData,
} from './sqlite_worker.ts';
import type {
  CallOptions,
  KeyValue,
  LeaseGrant,
  LeaseId,
  RangeResult,
  Store,
  Transaction,
  TransactionResult,
  WatchItem,
} from './store.ts';

/** Pauses between attempts. */
const backOff = { firstMs: 100, longestMs: 5_000 };

export interface SqliteStoreOptions {
  /** Clock of leases; default: the kernel's. */
  readonly clock?: BootClockFiles;
  readonly limits?: SqliteLimits;
  /** Clock of deadlines and pauses. */
  readonly time?: Clock;
}

/**
 * The embedded store: one SQLite file for all agents on one machine, accessed by one thread in each agent. A lease ends
 * when its time by the boot clock is over, or when the machine restarts.
 */
export class SqliteStore implements Store {
  readonly description: string;
  readonly maintenance = undefined;
  readonly #worker: Worker;
  readonly #time: Clock;
  readonly #life = new AbortController();
  readonly #ended: Promise<void>;
  readonly #waiting = new Map<number, PromiseWithResolvers<unknown>>();
  #lastId = 0;

  private constructor(data: SqliteWorkerData, time: Clock) {
    this.#time = time;
    this.description = `sqlite:${data.path}`;
    // The sibling file in its current form: .ts in the repository, .js in the image.
    this.#worker = new Worker(new URL(`./sqlite_worker${extname(import.meta.filename)}`, import.meta.url), {
      workerData: data,
    });
    this.#worker.on('message', (reply: SqliteReply) => this.#receive(reply));
    this.#worker.on('error', (error) => this.#end(HearthError.from(error).within(this.description)));
    this.#ended = new Promise((done) => {
      this.#worker.once('exit', () => {
        this.#end(new HearthError('Internal', `${this.description}: its thread has ended. Restart the agent.`));
        done();
      });
    });
  }

  /** Opens or creates the file. Errors name the path and the cause. */
  static async open(path: string, options: SqliteStoreOptions = {}): Promise<SqliteStore> {
    const { clock = kernelClockFiles, limits = defaultSqliteLimits, time = systemClock } = options;
    const store = new SqliteStore({ path: resolve(path), clock, limits }, time);
    const opened = Promise.withResolvers<unknown>();
    store.#waiting.set(0, opened);
    try {
      await opened.promise;
    } catch (error) {
      await store.close();
      throw error;
    }
    return store;
  }

  async get(key: string, options?: CallOptions): Promise<KeyValue | undefined> {
    checkKey(key);
    return this.#call('get', [key], options);
  }

  async range(prefix: string, options?: CallOptions): Promise<RangeResult> {
    checkPrefix(prefix);
    return this.#call('range', [prefix], options);
  }

  async transact(transaction: Transaction, options?: CallOptions): Promise<TransactionResult> {
    checkTransaction(transaction);
    return this.#call('transact', [transaction], options);
  }

  async put(key: string, value: string, options?: CallOptions & { readonly lease?: LeaseId }): Promise<number> {
    const lease = options?.lease === undefined ? {} : { lease: options.lease };
    const result = await this.transact({ compare: [], success: [{ kind: 'put', key, value, ...lease }] }, options);
    return result.revision;
  }

  async delete(key: string, options?: CallOptions): Promise<boolean> {
    const result = await this.transact({ compare: [], success: [{ kind: 'delete', key }] }, options);
    return result.deleted[0] === 1;
  }

  async grantLease(ttlSeconds: number, options?: CallOptions): Promise<LeaseGrant> {
    checkTtl(ttlSeconds);
    return this.#call('grantLease', [ttlSeconds], options);
  }

  async keepAlive(lease: LeaseId, options?: CallOptions): Promise<number> {
    checkLease(lease);
    return this.#call('keepAlive', [lease], options);
  }

  async revokeLease(lease: LeaseId, options?: CallOptions): Promise<void> {
    checkLease(lease);
    return this.#call('revokeLease', [lease], options);
  }

  async revision(options?: CallOptions): Promise<number> {
    return this.#call('revision', [], options);
  }

  async compact(revision: number, options?: CallOptions): Promise<void> {
    checkRevision(revision);
    return this.#call('compact', [revision], options);
  }

  async *watch(
    prefix: string,
    fromRevision: number,
    options?: { readonly signal?: AbortSignal },
  ): AsyncIterable<WatchItem> {
    checkPrefix(prefix);
    checkRevision(fromRevision);
    const { signal } = this.#life;
    const ended = options?.signal === undefined ? signal : AbortSignal.any([signal, options.signal]);
    let query: EventsRequest = { prefix, from: fromRevision, identity: undefined };
    for (let failures = 0; ; ) {
      let answer: EventsAnswer;
      try {
        answer = await this.#events(query, ended);
        failures = 0;
      } catch (error) {
        // A file that is locked, full or missing for a while does not end the watch.
        if (ended.aborted || this.#life.signal.aborted) throw cancelled(`A watch of ${this.description}`);
        if (HearthError.from(error).code === 'Internal') throw error;
        await sleep(this.#time, backOffMs(this.#time, failures++, backOff), ended);
        continue;
      }
      if (answer.kind === 'compacted') {
        yield { kind: 'compacted', reason: answer.reason };
        return;
      }
      query = { prefix, from: answer.next, identity: answer.identity };
      yield { kind: 'events', events: answer.events, revision: answer.revision };
    }
  }

  async close(): Promise<void> {
    if (!this.#life.signal.aborted) {
      this.#life.abort();
      this.#worker.postMessage({ kind: 'close' } satisfies SqliteRequest);
    }
    await this.#ended;
  }

  async #call<Method extends keyof SqliteCalls>(
    method: Method,
    parameters: Parameters<SqliteCalls[Method]>,
    options: CallOptions | undefined,
  ): Promise<ReturnType<SqliteCalls[Method]>> {
    const what = `${method} of ${this.description}`;
    const result = await bounded(what, options, this.#life.signal, this.#time, ({ signal }) =>
      this.#send((id) => ({ id, kind: 'call', method, parameters }), signal),
    );
    return result as ReturnType<SqliteCalls[Method]>;
  }

  async #events(query: EventsRequest, signal: AbortSignal): Promise<EventsAnswer> {
    return (await this.#send((id) => ({ id, kind: 'events', query }), signal)) as EventsAnswer;
  }

  /** The worker's answer to one request; rejects when the signal aborts first. */
  async #send(request: (id: number) => SqliteRequest, signal: AbortSignal): Promise<unknown> {
    signal.throwIfAborted();
    const id = ++this.#lastId;
    const waiting = Promise.withResolvers<unknown>();
    this.#waiting.set(id, waiting);
    const forget = (): void => {
      this.#worker.postMessage({ id, kind: 'forget' } satisfies SqliteRequest);
      waiting.reject(signal.reason);
    };
    signal.addEventListener('abort', forget, { once: true });
    try {
      this.#worker.postMessage(request(id));
      return await waiting.promise;
    } finally {
      signal.removeEventListener('abort', forget);
      this.#waiting.delete(id);
    }
  }

  #receive(reply: SqliteReply): void {
    const waiting = this.#waiting.get(reply.id);
    if ('error' in reply) waiting?.reject(new HearthError(reply.error.code, reply.error.message));
    else waiting?.resolve(reply.result);
  }

  #end(error: HearthError): void {
    if (!this.#life.signal.aborted) this.#life.abort(error);
    for (const waiting of this.#waiting.values()) waiting.reject(error);
  }
}
