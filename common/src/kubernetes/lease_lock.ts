import type { Clock } from '../clock.ts';
import { HearthError } from '../error.ts';
import type { KubernetesClient } from './client.ts';
import { kinds, type Lease } from './kinds.ts';

export interface LeaseLockOptions {
  api: Pick<KubernetesClient, 'get' | 'create' | 'replace'>;
  namespace: string;
  name: string;
  identity: string;
  leaseSeconds: number;
  clock: Clock;
}

/** One Lease object and this replica's observation of it, by the rules of client-go's leaderelection. */
export class LeaseLock {
  readonly #options: LeaseLockOptions;
  #seen: Lease | undefined;
  /**
   * Local time at which #seen was first observed; times in the lease are of another machine. Taken after the response,
   * because the holder may have renewed during the request and counts from before that.
   */
  #seenAt = 0;

  constructor(options: LeaseLockOptions) {
    this.#options = options;
  }

  /** The last observed holder; '' for none, undefined before the first observation. */
  get holder(): string | undefined {
    return this.#seen === undefined ? undefined : (this.#seen.spec?.holderIdentity ?? '');
  }

  get isHeldByOther(): boolean {
    return !!this.holder && this.holder !== this.#options.identity;
  }

  /** Until this replica may take the lease of another, ms; undefined when none holds it. */
  get expiresInMs(): number | undefined {
    if (!this.isHeldByOther) return undefined;
    const seconds = this.#seen?.spec?.leaseDurationSeconds ?? this.#options.leaseSeconds;
    return Math.max(0, this.#seenAt + seconds * 1000 - this.#options.clock.now());
  }

  /**
   * Takes the lease if the lease is free or unchanged for its duration; renews it if this replica holds it. false:
   * another replica holds it. Throws the API's errors; Conflict when another replica was faster.
   */
  async acquire(signal: AbortSignal): Promise<boolean> {
    const { api, name, namespace, identity } = this.#options;
    if (this.#seen !== undefined && this.holder === identity) {
      try {
        return await this.#write(this.#seen, signal);
      } catch (thrown) {
        // Another replica changed or deleted the lease: read it again.
        const { code } = HearthError.from(thrown);
        if (code !== 'Conflict' && code !== 'NotFound') throw thrown;
      }
    }
    const lease = await api.get(kinds.Lease, name, namespace, signal);
    if (lease === undefined) {
      const spec = this.#spec(undefined);
      this.#see(await api.create(kinds.Lease, { metadata: { name, namespace }, spec }, signal));
      return true;
    }
    if (lease.metadata?.resourceVersion !== this.#seen?.metadata?.resourceVersion) this.#see(lease);
    if ((this.expiresInMs ?? 0) > 0) return false;
    return await this.#write(lease, signal);
  }

  /** Lets another replica take the lease at once. Throws the API's errors. */
  async release(signal: AbortSignal): Promise<void> {
    const { api, identity } = this.#options;
    if (this.#seen === undefined || this.holder !== identity) return;
    const spec = { ...this.#spec(this.#seen), holderIdentity: '', leaseDurationSeconds: 1 };
    this.#see(await api.replace(kinds.Lease, { ...this.#seen, spec }, undefined, signal));
  }

  async #write(lease: Lease, signal: AbortSignal): Promise<boolean> {
    // The resource version makes this fail if another replica has written since.
    const written = await this.#options.api.replace(
      kinds.Lease,
      { ...lease, spec: { ...lease.spec, ...this.#spec(lease) } },
      undefined,
      signal,
    );
    this.#see(written);
    return true;
  }

  #spec(before: Lease | undefined): NonNullable<Lease['spec']> {
    const { identity, leaseSeconds, clock } = this.#options;
    const now = microTime(clock.date());
    const ours = before?.spec?.holderIdentity === identity;
    const transitions = before?.spec?.leaseTransitions ?? 0;
    return {
      holderIdentity: identity,
      leaseDurationSeconds: leaseSeconds,
      acquireTime: ours ? (before?.spec?.acquireTime ?? now) : now,
      renewTime: now,
      leaseTransitions: before === undefined || ours ? transitions : transitions + 1,
    };
  }

  #see(lease: Lease): void {
    this.#seen = lease;
    this.#seenAt = this.#options.clock.now();
  }
}

/** meta/v1 MicroTime requires exactly six digits. */
function microTime(date: Date): string {
  return date.toISOString().replace('Z', '000Z');
}
