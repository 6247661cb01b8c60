/**
 * The store: what agents of one cluster must agree on. etcd's model in small: one revision counter for the whole
 * store, transactions of compares and writes, leases, and watches that miss nothing.
 *
 * Keys and values are strings without unpaired surrogates, kept as UTF-8; keys are ordered by their bytes. Values are
 * JSON by convention. (A foreign writer's key that is not UTF-8 is not seen through this interface.) Revisions are
 * safe integers; 0 is the revision of what does not exist.
 *
 * Errors of every call are HearthErrors: `InvalidArgument` (limits below), `NotFound` (a lease that is gone),
 * `Unavailable` (the store cannot be reached), `DeadlineExceeded`, `Cancelled` (the signal was aborted or the store
 * closed). After `Unavailable` or `DeadlineExceeded` a write may or may not have happened, unless the message says:
 * nothing was written. Read before trying again.
 */

import type { Clock, Logger } from '@hearth/common';

export const storeLimits = {
  /** Operations and compares of a transaction, each. etcd's own limit. */
  transactionOperations: 128,
  /** Bytes of a key. */
  keyBytes: 4096,
  /** Bytes of all keys and values of a transaction together; etcd refuses requests of 1.5 MiB. */
  transactionBytes: 1024 * 1024,
  /** Longest life of a lease between two keep-alives, in seconds. */
  leaseSeconds: 24 * 3600,
} as const;

/** Choices that an address of a store leaves open. */
export interface StoreOptions {
  /** Of deadlines and pauses; leases go by the store's own. */
  readonly clock?: Clock;
  /** PEM files for an etcd, beside or instead of those that its address names. */
  readonly tls?: {
    readonly ca?: string | undefined;
    readonly cert?: string | undefined;
    readonly key?: string | undefined;
    /** Name that the members' certificates are for. */
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
  /** Revision at which the key came into being, after it was last absent. */
  readonly createRevision: number;
  /** Revision of the last write. */
  readonly modRevision: number;
  /** Writes since it came into being, from 1. */
  readonly version: number;
  /** The key vanishes with this lease. */
  readonly lease: LeaseId | undefined;
}

/** A condition of a transaction. `modRevision` and `createRevision` of an absent key are 0; its value equals nothing. */
export type Compare =
  | { readonly key: string; readonly exists: boolean }
  | { readonly key: string; readonly modRevision: number }
  | { readonly key: string; readonly createRevision: number }
  | { readonly key: string; readonly value: string };

/** A put without a lease detaches the key from the lease that it had. */
export type Operation =
  | { readonly kind: 'put'; readonly key: string; readonly value: string; readonly lease?: LeaseId }
  | { readonly kind: 'delete'; readonly key: string }
  | { readonly kind: 'deletePrefix'; readonly prefix: string };

export interface Transaction {
  /** All must hold for `success` to be done, else `failure` is done. */
  readonly compare: readonly Compare[];
  /** Done all or none, as one revision. No two operations of a branch may touch the same key. */
  readonly success: readonly Operation[];
  readonly failure?: readonly Operation[];
}

export interface TransactionResult {
  readonly succeeded: boolean;
  /** Of the store after the transaction: the transaction's own, if it changed anything. */
  readonly revision: number;
  /** For each operation of the branch done, how many keys it deleted (0 for puts). */
  readonly deleted: readonly number[];
}

export interface RangeResult {
  /** In the order of the keys' bytes. */
  readonly entries: readonly KeyValue[];
  /** The store's: a watch from `revision + 1` continues this result without a gap. */
  readonly revision: number;
}

export type StoreEvent =
  | { readonly kind: 'put'; readonly entry: KeyValue }
  | { readonly kind: 'delete'; readonly key: string; readonly revision: number };

export type WatchItem =
  /** Whole revisions, in order; a transaction is never split over two items. `revision` is the last one's. */
  | { readonly kind: 'events'; readonly events: readonly StoreEvent[]; readonly revision: number }
  /**
   * The revisions asked for are no longer kept, or the store was replaced by another or an older copy: read the range
   * again and watch from there. Always the last item.
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
  /** Seconds that the lease lives after its grant and after each keep-alive; may be more than was asked for. */
  readonly ttlSeconds: number;
}

export interface Store {
  /** For messages: kind and place, without secrets. */
  readonly description: string;

  get(key: string, options?: CallOptions): Promise<KeyValue | undefined>;
  /** All keys that begin with `prefix` (all keys at all for ''), at one revision. */
  range(prefix: string, options?: CallOptions): Promise<RangeResult>;
  /** Atomic and linearizable. `NotFound` when an operation names a lease that is gone; then nothing was written. */
  transact(transaction: Transaction, options?: CallOptions): Promise<TransactionResult>;
  /** Returns the new revision. */
  put(key: string, value: string, options?: CallOptions & { readonly lease?: LeaseId }): Promise<number>;
  /** Resolves to true when the key was there. */
  delete(key: string, options?: CallOptions): Promise<boolean>;

  /** A lease that vanishes, with its keys, `ttlSeconds` (an integer) after the grant or the last keep-alive. */
  grantLease(ttlSeconds: number, options?: CallOptions): Promise<LeaseGrant>;
  /** Prolongs the lease by its whole time, and returns that in seconds. `NotFound`: it is gone, and its keys with it. */
  keepAlive(lease: LeaseId, options?: CallOptions): Promise<number>;
  /** Ends the lease and deletes its keys as one revision. No error when it is gone already. */
  revokeLease(lease: LeaseId, options?: CallOptions): Promise<void>;

  /**
   * Every change of keys that begin with `prefix`, from `fromRevision` on: each once, in order. `fromRevision` is from
   * 1 to the newest revision + 1; a later one can only come from a store that is no longer there: `compacted`. Outages of the store are waited out. What is buffered is bounded: a consumer that stays away too
   * long gets `compacted`. Ends by `compacted`, by the consumer's `break`, or throws `Cancelled` when the
   * signal is aborted or the store closed, `PermissionDenied`, `Unauthenticated`.
   */
  watch(prefix: string, fromRevision: number, options?: { readonly signal?: AbortSignal }): AsyncIterable<WatchItem>;

  /** The newest revision. */
  revision(options?: CallOptions): Promise<number>;
  /** Forgets events before `revision`; the present state of keys stays. No error when they are forgotten already. */
  compact(revision: number, options?: CallOptions): Promise<void>;
  /** Ends every call and watch with `Cancelled`. Leases go on until they expire. Idempotent. */
  close(): Promise<void>;
}
