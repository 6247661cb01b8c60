import { type Clock, HearthError, type Logger, sleep, systemClock } from '@hearth/common';
import { type BootClock, type LeaseId, openBootClock, type Store } from '../store/index.ts';

const retryMs = 500;

/**
 * One lease of this agent, kept alive, for records that must vanish with the agent: locks, requests, statistics,
 * leadership. A new lease replaces a lost one, whose records are gone by then.
 */
export class Session {
  readonly #store: Store;
  readonly #logger: Logger;
  readonly #ttlSeconds: number;
  readonly #clock: Clock;
  readonly #bootClock: BootClock;
  readonly #stop = new AbortController();
  readonly #lostListeners = new Set<() => void>();
  readonly #renewedListeners = new Set<() => void>();
  readonly #ended: Promise<void>;
  #lease: LeaseId | undefined;
  /** Clock time until which the lease is certainly alive. */
  #aliveUntil = 0;
  /** The same of the boot clock, less a tenth of the lifetime. */
  #certainUntil = 0;
  #granting: Promise<LeaseId> | undefined;

  constructor(store: Store, logger: Logger, ttlSeconds = 10, clock: Clock = systemClock, bootClock?: BootClock) {
    this.#store = store;
    this.#logger = logger;
    this.#ttlSeconds = ttlSeconds;
    this.#clock = clock;
    this.#bootClock = bootClock ?? openBootClock();
    this.#ended = this.#keepAlive();
  }

  /** The current lease; grants one if there is none. */
  async lease(signal?: AbortSignal): Promise<LeaseId> {
    if (this.#lease !== undefined) return this.#lease;
    this.#granting ??= this.#grant(signal).finally(() => {
      this.#granting = undefined;
    });
    return await this.#granting;
  }

  /** True while records of the lease cannot have vanished, measured from before the last keep-alive was sent. */
  get alive(): boolean {
    return this.#lease !== undefined && this.#clock.now() < this.#aliveUntil;
  }

  /**
   * Milliseconds of CLOCK_BOOTTIME until which records of this lease certainly exist: from the sending of the last
   * answered renewal, less a tenth of the lifetime, by which clocks may differ. 0 for an earlier lease.
   */
  certainUntil(lease: LeaseId): number {
    return this.#lease === lease ? this.#certainUntil : 0;
  }

  /** Calls the listener when the lease was granted or renewed. Returns a function that unsubscribes. */
  onRenewed(listener: () => void): () => void {
    this.#renewedListeners.add(listener);
    return () => void this.#renewedListeners.delete(listener);
  }

  /** Calls the listener when the lease and all its records are gone. Returns a function that unsubscribes. */
  onLost(listener: () => void): () => void {
    this.#lostListeners.add(listener);
    return () => void this.#lostListeners.delete(listener);
  }

  /**
   * Revokes the lease, so that other agents need not wait for its expiry. Never throws; on failure the lease expires by
   * itself.
   */
  async close(): Promise<void> {
    this.#stop.abort();
    await this.#ended;
    const lease = this.#lease;
    this.#lease = undefined;
    if (lease === undefined) return;
    await this.#store.revokeLease(lease, { deadlineMs: 2_000 }).catch((thrown) => {
      this.#logger.warn('failed to revoke the lease; it expires by itself', { error: HearthError.from(thrown) });
    });
  }

  async #grant(signal: AbortSignal | undefined): Promise<LeaseId> {
    const asked = this.#now();
    const { lease, ttlSeconds } = await this.#store.grantLease(
      this.#ttlSeconds,
      signal === undefined ? {} : { signal },
    );
    this.#lease = lease;
    this.#renewed(asked, ttlSeconds);
    return lease;
  }

  #now(): { monotonic: number; boot: number } {
    return { monotonic: this.#clock.now(), boot: this.#bootClock.now() };
  }

  #renewed({ monotonic, boot }: { monotonic: number; boot: number }, seconds: number): void {
    this.#aliveUntil = monotonic + seconds * 1000;
    this.#certainUntil = boot + seconds * 900;
    for (const listener of [...this.#renewedListeners]) listener();
  }

  async #keepAlive(): Promise<void> {
    const signal = this.#stop.signal;
    while (!signal.aborted) {
      const wait = this.#lease === undefined ? retryMs : (this.#ttlSeconds * 1000) / 3;
      await sleep(this.#clock, wait, signal);
      const lease = this.#lease;
      if (signal.aborted || lease === undefined) continue;
      const asked = this.#now();
      try {
        const seconds = await this.#store.keepAlive(lease, { signal, deadlineMs: this.#ttlSeconds * 1000 });
        this.#renewed(asked, seconds);
      } catch (thrown) {
        const error = HearthError.from(thrown);
        if (signal.aborted) return;
        this.#logger.warn('failed to renew the lease', { error });
        if (error.code === 'NotFound') this.#lost();
      }
    }
  }

  #lost(): void {
    this.#lease = undefined;
    for (const listener of [...this.#lostListeners]) listener();
  }
}
