import type { CallOptions, LeaseId, Store, Transaction } from './store.ts';

const leaseBytes = 8;

/** Requests to a store by name of the call, and the bytes of their keys, values and leases, without framing. */
export type StoreTraffic = ReadonlyMap<string, { requests: number; bytes: number }>;

/** A store that counts what its users send. Closes the store below. */
export class MeteredStore implements Store {
  readonly #below: Store;
  readonly #traffic = new Map<string, { requests: number; bytes: number }>();

  constructor(below: Store) {
    this.#below = below;
  }

  get description(): string {
    return this.#below.description;
  }

  get maintenance() {
    return this.#below.maintenance;
  }

  /** Of the life of this object; grows. */
  get traffic(): StoreTraffic {
    return this.#traffic;
  }

  get(key: string, options?: CallOptions) {
    this.#count('get', size(key));
    return this.#below.get(key, options);
  }

  range(prefix: string, options?: CallOptions) {
    this.#count('range', size(prefix));
    return this.#below.range(prefix, options);
  }

  transact(transaction: Transaction, options?: CallOptions) {
    this.#count('transact', sizeOf(transaction));
    return this.#below.transact(transaction, options);
  }

  put(key: string, value: string, options?: CallOptions & { readonly lease?: LeaseId }) {
    this.#count('put', size(key) + size(value) + (options?.lease === undefined ? 0 : leaseBytes));
    return this.#below.put(key, value, options);
  }

  delete(key: string, options?: CallOptions) {
    this.#count('delete', size(key));
    return this.#below.delete(key, options);
  }

  grantLease(ttlSeconds: number, options?: CallOptions) {
    this.#count('grantLease', leaseBytes);
    return this.#below.grantLease(ttlSeconds, options);
  }

  keepAlive(lease: LeaseId, options?: CallOptions) {
    this.#count('keepAlive', leaseBytes);
    return this.#below.keepAlive(lease, options);
  }

  revokeLease(lease: LeaseId, options?: CallOptions) {
    this.#count('revokeLease', leaseBytes);
    return this.#below.revokeLease(lease, options);
  }

  watch(...asked: Parameters<Store['watch']>) {
    this.#count('watch', size(asked[0]));
    return this.#below.watch(...asked);
  }

  revision(options?: CallOptions) {
    this.#count('revision', 0);
    return this.#below.revision(options);
  }

  compact(revision: number, options?: CallOptions) {
    this.#count('compact', leaseBytes);
    return this.#below.compact(revision, options);
  }

  close(): Promise<void> {
    return this.#below.close();
  }

  #count(call: string, bytes: number): void {
    const { requests = 0, bytes: before = 0 } = this.#traffic.get(call) ?? {};
    this.#traffic.set(call, { requests: requests + 1, bytes: before + bytes });
  }
}

const size = (text: string): number => Buffer.byteLength(text);

function sizeOf({ compare, success, failure = [] }: Transaction): number {
  const compared = compare.map((one) => size(one.key) + ('value' in one ? size(one.value) : 0));
  const operations = [...success, ...failure].map((one) => {
    if (one.kind === 'deletePrefix') return size(one.prefix);
    if (one.kind === 'delete') return size(one.key);
    return size(one.key) + size(one.value) + (one.lease === undefined ? 0 : leaseBytes);
  });
  return [...compared, ...operations].reduce((sum, bytes) => sum + bytes, 0);
}
