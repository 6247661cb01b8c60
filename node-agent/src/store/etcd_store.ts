import { randomUUID } from 'node:crypto';
import { HearthError, silentLogger, systemClock } from '@hearth/common';
import { checkKey, checkLease, checkPrefix, checkRevision, checkTransaction, checkTtl } from './check.ts';
import { type Bounds, bounded } from './deadline.ts';
import { parseEtcdAddress, withTls } from './etcd_address.ts';
import { EtcdConnection } from './etcd_connection.ts';
import { etcdError, isCompacted, isLeaseGone } from './etcd_error.ts';
import { EtcdKeepAlive } from './etcd_keep_alive.ts';
import { EtcdKeys, toRevision } from './etcd_keys.ts';
import { EtcdMaintenance } from './etcd_maintenance.ts';
import { fromTransaction, toTransaction } from './etcd_transaction.ts';
import { unary } from './etcd_unary.ts';
import { EtcdWatch } from './etcd_watch.ts';
import type { LeaseGrantResponse, RangeResponse } from './generated/etcd/rpc.ts';
import type {
  CallOptions,
  KeyValue,
  LeaseGrant,
  LeaseId,
  RangeResult,
  Store,
  StoreMaintenance,
  StoreOptions,
  Transaction,
  TransactionResult,
  WatchItem,
} from './store.ts';

/** Keys per request, so that no response grows with the store. */
const pageKeys = 500;
const repeatable = { repeatable: true };

/** The store in an etcd cluster, for agents on many machines. On failure of a member it asks the next. */
export class EtcdStore implements Store {
  readonly description: string;
  readonly #connection: EtcdConnection;
  readonly #keys: EtcdKeys;
  readonly #keepAlive = new EtcdKeepAlive();
  readonly #life = new AbortController();
  readonly maintenance: StoreMaintenance;

  private constructor(connection: EtcdConnection, keys: EtcdKeys) {
    this.#connection = connection;
    this.#keys = keys;
    this.description = connection.description;
    this.maintenance = new EtcdMaintenance(connection, this.#life.signal);
  }

  /**
   * Checks the address and reads its files (see parseEtcdAddress). Does not wait for etcd, because an agent must start
   * while the store is unreachable.
   */
  static open(address: string, { tls = {}, logger = silentLogger, clock = systemClock }: StoreOptions = {}): EtcdStore {
    const parsed = withTls(parseEtcdAddress(address), tls);
    return new EtcdStore(new EtcdConnection(parsed, logger, clock), new EtcdKeys(parsed.space));
  }

  async get(key: string, options?: CallOptions): Promise<KeyValue | undefined> {
    checkKey(key);
    const response = await this.#bounded('get', options, (bounds) =>
      this.#range('get', bounds, this.#keys.encode(key), Buffer.alloc(0), 1, 0),
    );
    const kv = response.kvs[0];
    return kv === undefined ? undefined : this.#keys.entry(kv);
  }

  async range(prefix: string, options?: CallOptions): Promise<RangeResult> {
    checkPrefix(prefix);
    return this.#bounded('range', options, async (bounds) => {
      for (;;) {
        try {
          return await this.#rangeAtOneRevision(prefix, bounds);
        } catch (thrown) {
          // Compacted between two pages: start again at a newer revision.
          if (!isCompacted(thrown)) throw thrown;
        }
      }
    });
  }

  async transact(transaction: Transaction, options?: CallOptions): Promise<TransactionResult> {
    checkTransaction(transaction);
    const request = toTransaction(transaction, this.#keys);
    return this.#bounded('transaction', options, async (bounds) =>
      fromTransaction(
        await this.#connection.call('transaction', bounds, { repeatable: false }, (member, metadata, signal) =>
          unary(signal, (answer) => member.kv.txn(request, metadata, answer)),
        ),
      ),
    );
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

  /** Repeated after a lost answer; the first lease expires by itself. */
  async grantLease(ttlSeconds: number, options?: CallOptions): Promise<LeaseGrant> {
    checkTtl(ttlSeconds);
    const request = { TTL: BigInt(ttlSeconds), ID: 0n };
    const { ID, TTL } = await this.#bounded('lease grant', options, (bounds) =>
      this.#connection.call('lease grant', bounds, repeatable, (member, metadata, signal) =>
        unary<LeaseGrantResponse>(signal, (answer) => member.lease.leaseGrant(request, metadata, answer)),
      ),
    );
    return { lease: String(ID), ttlSeconds: Number(TTL) };
  }

  async keepAlive(lease: LeaseId, options?: CallOptions): Promise<number> {
    checkLease(lease);
    const seconds = await this.#bounded('keep-alive', options, (bounds) =>
      this.#connection.call('keep-alive', bounds, repeatable, (member, metadata, signal) =>
        this.#keepAlive.ask(lease, member, metadata, signal),
      ),
    );
    if (seconds > 0) return seconds;
    throw new HearthError('NotFound', `The lease ${lease} has expired or was revoked. Ask for a new one.`);
  }

  async revokeLease(lease: LeaseId, options?: CallOptions): Promise<void> {
    checkLease(lease);
    await this.#bounded('lease revocation', options, async (bounds) => {
      try {
        await this.#connection.call('lease revocation', bounds, repeatable, (member, metadata, signal) =>
          unary(signal, (answer) => member.lease.leaseRevoke({ ID: BigInt(lease) }, metadata, answer)),
        );
      } catch (thrown) {
        if (!isLeaseGone(thrown)) throw thrown;
      }
    });
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
    const readIdentity = (bounds: Bounds): Promise<{ identity: string; revision: number }> => this.#identity(bounds);
    yield* new EtcdWatch(this.#connection, this.#keys, readIdentity, prefix, fromRevision).items(ended);
  }

  async revision(options?: CallOptions): Promise<number> {
    const response = await this.#bounded('revision', options, (bounds) =>
      this.#range('revision', bounds, this.#keys.identity, Buffer.alloc(0), 1, 0),
    );
    return toRevision(response.header?.revision);
  }

  async compact(revision: number, options?: CallOptions): Promise<void> {
    checkRevision(revision);
    const request = { revision: BigInt(revision), physical: false };
    await this.#bounded('compaction', options, async (bounds) => {
      try {
        await this.#connection.call('compaction', bounds, repeatable, (member, metadata, signal) =>
          unary(signal, (answer) => member.kv.compact(request, metadata, answer)),
        );
      } catch (thrown) {
        if (!isCompacted(thrown)) throw thrown;
      }
    });
  }

  async close(): Promise<void> {
    if (this.#life.signal.aborted) return;
    this.#life.abort();
    this.#keepAlive.close();
    this.#connection.close();
  }

  async #bounded<T>(what: string, options: CallOptions | undefined, body: (bounds: Bounds) => Promise<T>): Promise<T> {
    const named = `${what} of ${this.description}`;
    try {
      return await bounded(named, options, this.#life.signal, this.#connection.clock, body);
    } catch (thrown) {
      throw etcdError(named, thrown);
    }
  }

  async #rangeAtOneRevision(prefix: string, bounds: Bounds): Promise<RangeResult> {
    const { key, rangeEnd } = this.#keys.range(prefix);
    const entries: KeyValue[] = [];
    let revision = 0;
    for (let from = key; ; ) {
      const page = await this.#range('range', bounds, from, rangeEnd, pageKeys, revision);
      if (revision === 0) revision = toRevision(page.header?.revision);
      for (const kv of page.kvs) {
        const entry = this.#keys.entry(kv);
        if (entry !== undefined) entries.push(entry);
      }
      const last = page.kvs.at(-1);
      if (!page.more || last === undefined) return { entries, revision };
      from = Buffer.concat([last.key, Buffer.of(0)]);
    }
  }

  async #range(
    what: string,
    bounds: Bounds,
    key: Buffer,
    rangeEnd: Buffer,
    limit: number,
    revision: number,
  ): Promise<RangeResponse> {
    const request = { key, rangeEnd, limit: BigInt(limit), revision: BigInt(revision) };
    return this.#connection.call(what, bounds, repeatable, (member, metadata, signal) =>
      unary(signal, (answer) => member.kv.range(request, metadata, answer)),
    );
  }

  /** The identity that the first client wrote into this etcd. */
  async #identity(bounds: Bounds): Promise<{ identity: string; revision: number }> {
    const key = this.#keys.identity;
    const read = await this.#range('identity', bounds, key, Buffer.alloc(0), 1, 0);
    const kv = read.kvs[0];
    if (kv !== undefined) return { identity: kv.value.toString('utf8'), revision: toRevision(read.header?.revision) };
    const mark = {
      compare: [
        { result: 0 as const, target: 1 as const, key, targetUnion: { $case: 'createRevision' as const, value: 0n } },
      ],
      success: [
        { request: { $case: 'requestPut' as const, value: { key, value: Buffer.from(randomUUID()), lease: 0n } } },
      ],
      failure: [],
    };
    // Idempotent: writes once and reads the identity back.
    await this.#connection.call('identity', bounds, repeatable, (member, metadata, signal) =>
      unary(signal, (answer) => member.kv.txn(mark, metadata, answer)),
    );
    return this.#identity(bounds);
  }
}
