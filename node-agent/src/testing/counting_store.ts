import type { CallOptions, LeaseId, Store, Transaction } from '../store/store.ts';

const leaseBytes = 8;

/** A store that counts what its users send, apart from the framing of the protocol. */
export class CountingStore implements Store {
  readonly #below: Store;
  /** By name of the call. */
  readonly requests = new Map<string, number>();
  /** Keys, values and leases of all requests. */
  bytes = 0;

  constructor(below: Store) {
    this.#below = below;
  }

  get description(): string {
    return this.#below.description;
  }

  get maintenance() {
    return this.#below.maintenance;
  }

  reset(): void {
    this.requests.clear();
    this.bytes = 0;
  }

  get(key: string, options?: CallOptions) {
    this.#count('get', key.length);
    return this.#below.get(key, options);
  }

  range(prefix: string, options?: CallOptions) {
    this.#count('range', prefix.length);
    return this.#below.range(prefix, options);
  }

  transact(transaction: Transaction, options?: CallOptions) {
    this.#count('transact', JSON.stringify(transaction).length);
    return this.#below.transact(transaction, options);
  }

  put(key: string, value: string, options?: CallOptions & { readonly lease?: LeaseId }) {
    this.#count('put', key.length + value.length + leaseBytes);
    return this.#below.put(key, value, options);
  }

  delete(key: string, options?: CallOptions) {
    this.#count('delete', key.length);
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
    this.#count('watch', asked[0].length);
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
    this.requests.set(call, (this.requests.get(call) ?? 0) + 1);
    this.bytes += bytes;
  }
}
