import { HearthError } from '@hearth/common';
import type { CallOptions, LeaseId, Store, Transaction, WatchItem } from '../store/store.ts';

/** A store that a test can cut off from its agent, as by a crash, while other agents keep using the underlying one. */
export class CutStore implements Store {
  readonly #below: Store;
  readonly #life = new AbortController();
  #held: Promise<void> = Promise.resolve();

  constructor(below: Store) {
    this.#below = below;
  }

  get description(): string {
    return this.#below.description;
  }

  get maintenance() {
    return this.#below.maintenance;
  }

  /** Fails every further call and ends every watch; leases expire by themselves. */
  cut(): void {
    this.#life.abort();
  }

  get(key: string, options?: CallOptions) {
    return this.#unlessCut(() => this.#below.get(key, this.#within(options)));
  }

  range(prefix: string, options?: CallOptions) {
    return this.#unlessCut(() => this.#below.range(prefix, this.#within(options)));
  }

  transact(transaction: Transaction, options?: CallOptions) {
    return this.#unlessCut(() => this.#below.transact(transaction, this.#within(options)));
  }

  put(key: string, value: string, options?: CallOptions & { readonly lease?: LeaseId }) {
    return this.#unlessCut(() => this.#below.put(key, value, this.#within(options)));
  }

  delete(key: string, options?: CallOptions) {
    return this.#unlessCut(() => this.#below.delete(key, this.#within(options)));
  }

  grantLease(ttlSeconds: number, options?: CallOptions) {
    return this.#unlessCut(() => this.#below.grantLease(ttlSeconds, this.#within(options)));
  }

  keepAlive(lease: LeaseId, options?: CallOptions) {
    return this.#unlessCut(() => this.#below.keepAlive(lease, this.#within(options)));
  }

  revokeLease(lease: LeaseId, options?: CallOptions) {
    return this.#unlessCut(() => this.#below.revokeLease(lease, this.#within(options)));
  }

  /** Stops delivery to watches until the returned function is called. */
  holdWatches(): () => void {
    const held = Promise.withResolvers<void>();
    this.#held = held.promise;
    return held.resolve;
  }

  async *watch(...[prefix, from, options]: Parameters<Store['watch']>): AsyncIterable<WatchItem> {
    for await (const item of this.#below.watch(prefix, from, this.#within(options))) {
      await this.#held;
      yield item;
    }
  }

  revision(options?: CallOptions) {
    return this.#unlessCut(() => this.#below.revision(this.#within(options)));
  }

  compact(revision: number, options?: CallOptions) {
    return this.#unlessCut(() => this.#below.compact(revision, this.#within(options)));
  }

  /** The underlying store stays open for other agents. */
  async close(): Promise<void> {
    this.cut();
  }

  async #unlessCut<T>(call: () => Promise<T>): Promise<T> {
    if (this.#life.signal.aborted) throw new HearthError('Unavailable', 'the store is cut off');
    return await call();
  }

  #within<O extends { readonly signal?: AbortSignal }>(options: O | undefined): O & { signal: AbortSignal } {
    const signals = options?.signal === undefined ? [this.#life.signal] : [this.#life.signal, options.signal];
    return { ...(options ?? ({} as O)), signal: AbortSignal.any(signals) };
  }
}
