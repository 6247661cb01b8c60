/**
 * The store holds the state that the agents of one cluster share. A subset of etcd's model: one revision counter for
 * the whole store, transactions of compares and writes, leases, and gapless watches.
 *
 * Keys and values are strings without unpaired surrogates, stored as UTF-8; keys are ordered bytewise. Values are JSON
 * by convention. Foreign keys that are not UTF-8 are invisible. Revisions are safe integers; an absent key has
 * revision 0.
 *
 * Every call throws HearthErrors: `InvalidArgument` (limits below), `NotFound` (a lease that is gone), `Unavailable`
 * (the store is unreachable), `DeadlineExceeded`, `Cancelled` (the signal aborted or the store closed). After
 * `Unavailable` or `DeadlineExceeded` a write may have happened, unless the message says that nothing was written. Read
 * before trying again.
 */

import type { Clock, Logger } from '@hearth/common';

export const storeLimits = {
  /** Maximum number of operations and of compares in a transaction, etcd's own limit. */
  transactionOperations: 128,
  /** Maximum length of a key in bytes. */
  keyBytes: 4096,
  /** Maximum total size of keys and values in a transaction; etcd refuses requests of 1.5 MiB. */
  transactionBytes: 1024 * 1024,
  /** Maximum time between two keep-alives of a lease, seconds. */
  leaseSeconds: 24 * 3600,
} as const;

/** Options beyond the address of a store. */
export interface StoreOptions {
  /** Clock of deadlines and pauses; the store's own clock times leases. */
  readonly clock?: Clock;
  /** PEM files for an etcd, which override those of its address. */
  readonly tls?: {
    readonly ca?: string | undefined;
    readonly cert?: string | undefined;
    readonly key?: string | undefined;
    /** Expected name in the members' certificates. */
    readonly serverName?: string | undefined;
  };
  /** Default: silent. */
  readonly logger?: Logger;
}

/** Name of a lease, chosen by the store. */
export type LeaseId = string;

export interface KeyValue {
  readonly key: string;
  readonly value: string;
  /** Revision at which the key was created after it was last absent. */
  readonly createRevision: number;
  /** Revision of the last write. */
  readonly modRevision: number;
  /** Number of writes since creation, from 1. */
  readonly version: number;
  /** The key is deleted with this lease. */
  readonly lease: LeaseId | undefined;
}

/**
 * A condition of a transaction. `modRevision` and `createRevision` of an absent key are 0; its value equals nothing.
 */
export type Compare =
  | { readonly key: string; readonly exists: boolean }
  | { readonly key: string; readonly modRevision: number }
  | { readonly key: string; readonly createRevision: number }
  | { readonly key: string; readonly value: string };

/** A put without a lease detaches the key from its lease. */
export type Operation =
  | { readonly kind: 'put'; readonly key: string; readonly value: string; readonly lease?: LeaseId }
  | { readonly kind: 'delete'; readonly key: string }
  | { readonly kind: 'deletePrefix'; readonly prefix: string };

export interface Transaction {
  /** If all hold, `success` is executed, else `failure`. */
  readonly compare: readonly Compare[];
  /** Executed atomically as one revision. No two operations of a branch may touch the same key. */
  readonly success: readonly Operation[];
  readonly failure?: readonly Operation[];
}

export interface TransactionResult {
  readonly succeeded: boolean;
  /** The store's revision after the transaction: the transaction's own if it changed anything. */
  readonly revision: number;
  /** For each executed operation, the number of deleted keys (0 for puts). */
  readonly deleted: readonly number[];
}

export interface RangeResult {
  /** In bytewise order of the keys. */
  readonly entries: readonly KeyValue[];
  /** The store's revision: a watch from `revision + 1` continues this result without a gap. */
  readonly revision: number;
}

export type StoreEvent =
  | { readonly kind: 'put'; readonly entry: KeyValue }
  | { readonly kind: 'delete'; readonly key: string; readonly revision: number };

export type WatchItem =
  /** Whole revisions, in order; a transaction is never split over two items. `revision` belongs to the last event. */
  | { readonly kind: 'events'; readonly events: readonly StoreEvent[]; readonly revision: number }
  /**
   * The requested revisions were compacted, or the store was replaced by another or an older copy: read the range again
   * and watch from its revision. Always the last item.
   */
  | { readonly kind: 'compacted'; readonly reason: string };

export interface CallOptions {
  /** Ends the call with `Cancelled`. */
  readonly signal?: AbortSignal;
  /** Milliseconds until the call ends with `DeadlineExceeded` (or `Unavailable`); default `defaultDeadlineMs`. */
  readonly deadlineMs?: number;
}

export const defaultDeadlineMs = 10_000;

export interface LeaseGrant {
  readonly lease: LeaseId;
  /** Lifetime in seconds after the grant and after each keep-alive; may exceed the requested one. */
  readonly ttlSeconds: number;
}

/** The space of a store with a quota. */
export interface StoreSpace {
  /** What counts for the quota. */
  bytes: number;
  quotaBytes: number;
  /** The store refuses all writes until `reclaim`. */
  full: boolean;
}

export interface StoreMaintenance {
  space(options?: CallOptions): Promise<StoreSpace>;
  /**
   * Deletes all history, gives free space back and lets writes pass again. Servers answer nothing meanwhile, one after
   * the other.
   */
  reclaim(options?: CallOptions): Promise<void>;
}

export interface Store {
  /** Kind and place of the store for messages, without secrets. */
  readonly description: string;
  /** Undefined for a store without a quota. */
  readonly maintenance: StoreMaintenance | undefined;

  get(key: string, options?: CallOptions): Promise<KeyValue | undefined>;
  /** All keys that begin with `prefix` (all keys for ''), at one revision. */
  range(prefix: string, options?: CallOptions): Promise<RangeResult>;
  /**
   * Atomic and linearizable. Throws `NotFound`, having written nothing, when an operation names a lease that is gone.
   */
  transact(transaction: Transaction, options?: CallOptions): Promise<TransactionResult>;
  /** Returns the new revision. */
  put(key: string, value: string, options?: CallOptions & { readonly lease?: LeaseId }): Promise<number>;
  /** Resolves to true when the key existed. */
  delete(key: string, options?: CallOptions): Promise<boolean>;

  /** Grants a lease that expires, with its keys, `ttlSeconds` (an integer) after the grant or the last keep-alive. */
  grantLease(ttlSeconds: number, options?: CallOptions): Promise<LeaseGrant>;
  /** Renews the lease and returns its lifetime in seconds. Throws `NotFound` when the lease and its keys are gone. */
  keepAlive(lease: LeaseId, options?: CallOptions): Promise<number>;
  /** Ends the lease and deletes its keys as one revision. Not an error when the lease is gone already. */
  revokeLease(lease: LeaseId, options?: CallOptions): Promise<void>;

  /**
   * Yields every change of keys that begin with `prefix` from `fromRevision` on, each once and in order. `fromRevision`
   * is between 1 and the newest revision + 1; a later one belongs to a replaced store and yields `compacted`. Waits out
   * outages of the store. Buffering is bounded: a slow consumer gets `compacted`. Ends with `compacted` or the
   * consumer's `break`; throws `Cancelled` when the signal aborts or the store closes, `PermissionDenied`,
   * `Unauthenticated`.
   */
  watch(prefix: string, fromRevision: number, options?: { readonly signal?: AbortSignal }): AsyncIterable<WatchItem>;

  /** The newest revision. */
  revision(options?: CallOptions): Promise<number>;
  /** Deletes events before `revision`; the current state of keys stays. Not an error when they are deleted already. */
  compact(revision: number, options?: CallOptions): Promise<void>;
  /** Ends every call and watch with `Cancelled`. Leases stay until they expire. Idempotent. */
  close(): Promise<void>;
}
