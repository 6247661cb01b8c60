import { type Clock, sleep, systemClock } from '../clock.ts';
import { HearthError } from '../error.ts';
import type { Logger } from '../logger.ts';
import type { KubernetesClient } from './client.ts';
import { LeaseLock } from './lease_lock.ts';

export interface LeaderElectionOptions {
  api: Pick<KubernetesClient, 'get' | 'create' | 'replace'>;
  namespace: string;
  /** Name of the Lease; created if missing. */
  name: string;
  /** Unique among replicas and restarts, such as the pod's name with a random suffix. */
  identity: string;
  /** Another replica may take a lease that was not renewed for this time. Default 15. */
  leaseSeconds?: number;
  /** A leader that could not renew for this time stops leading. Default 10. */
  renewSeconds?: number;
  /** Time between attempts. Default 2. */
  retrySeconds?: number;
  logger: Logger;
  /** Called when the observed leader changes; '' when nobody leads. */
  onLeader?: ((identity: string) => void) | undefined;
  clock?: Clock | undefined;
}

/** Time limit for releasing the lease at the end, ms. */
const releaseTimeoutMs = 5_000;

/**
 * Leader election by a Lease, after client-go's leaderelection. A replica takes the lease only after it has itself seen
 * the lease unchanged for its duration, so clocks need not agree. A leader counts its time from before the renewal
 * request and stops `leaseSeconds - renewSeconds` before another replica may start. A lease is no fence: work must end
 * soon after its signal aborts, and writes should carry resource versions.
 */
export class LeaderElection {
  readonly #options: LeaderElectionOptions;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #lock: LeaseLock;
  readonly #renewMs: number;
  readonly #retryMs: number;
  #leading = false;

  constructor(options: LeaderElectionOptions) {
    const { leaseSeconds = 15, renewSeconds = 10, retrySeconds = 2, clock = systemClock } = options;
    if (!(leaseSeconds > renewSeconds && renewSeconds > retrySeconds * 1.2 && retrySeconds > 0)) {
      throw new HearthError(
        'InvalidArgument',
        `A lease of ${leaseSeconds} s must be longer than the time to renew it (${renewSeconds} s), and that longer than ` +
          `the time between tries (${retrySeconds} s)`,
      );
    }
    this.#options = options;
    this.#clock = clock;
    this.#renewMs = renewSeconds * 1000;
    this.#retryMs = retrySeconds * 1000;
    this.#logger = options.logger.child({ lease: `${options.namespace}/${options.name}`, identity: options.identity });
    this.#lock = new LeaseLock({ ...options, leaseSeconds, clock });
  }

  get isLeader(): boolean {
    return this.#leading;
  }

  /**
   * Until `signal` aborts: waits for the lease, runs `lead` with a signal that aborts when the lease is lost, waits for
   * `lead` to end, and repeats. Releases the lease at the end. Returns when `signal` aborts or `lead` returns by
   * itself; when `lead` throws, logs the error, releases the lease and competes again.
   */
  async run(lead: (signal: AbortSignal) => Promise<void>, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const wonAt = await this.#acquire(signal);
      if (wonAt === undefined) return;
      const finished = await this.#term(lead, wonAt, signal);
      if (finished) return;
      if (!signal.aborted) await sleep(this.#clock, this.#jittered(), signal);
    }
  }

  /** Returns the start of the term; undefined when the signal aborted. */
  async #acquire(signal: AbortSignal): Promise<number | undefined> {
    while (!signal.aborted) {
      const asked = this.#clock.now();
      if (await this.#try(this.#renewMs, signal)) return asked;
      // A lease that ends sooner is tried for at its end, not at the next turn.
      await sleep(this.#clock, Math.min(this.#jittered(), this.#lock.expiresInMs || Number.POSITIVE_INFINITY), signal);
    }
    return undefined;
  }

  /** Runs one term. Returns true when `lead` ended by itself. */
  async #term(lead: (signal: AbortSignal) => Promise<void>, wonAt: number, signal: AbortSignal): Promise<boolean> {
    this.#logger.info('acquired the leader lease');
    this.#leading = true;
    const term = new AbortController();
    const end = () => term.abort();
    signal.addEventListener('abort', end, { once: true });
    let finished = false;
    const work = (async () => {
      try {
        await lead(term.signal);
        finished = !term.signal.aborted;
      } catch (thrown) {
        if (!term.signal.aborted) this.#logger.error('a controller failed while this replica led', { error: thrown });
      } finally {
        term.abort();
      }
    })();
    const held = await this.#renew(wonAt, term);
    this.#leading = false;
    signal.removeEventListener('abort', end);
    if (!held) this.#logger.warn('lost leadership: failed to renew the lease');
    // Waits without limit, because two overlapping terms in one process would be two leaders.
    await work;
    if (held) await this.#release();
    return finished;
  }

  /** Renews the lease until the term ends (true), or ends the term when the lease is lost (false). */
  async #renew(wonAt: number, term: AbortController): Promise<boolean> {
    let until = wonAt + this.#renewMs;
    let held = true;
    const lose = () => {
      if (term.signal.aborted) return;
      held = false;
      term.abort();
    };
    // Ends the term in time even while a request hangs.
    let cancel = this.#clock.schedule(until - this.#clock.now(), lose);
    for (;;) {
      await sleep(this.#clock, this.#jittered(), term.signal);
      if (term.signal.aborted) break;
      const asked = this.#clock.now();
      // Timers of a process that was stopped may fire in any order.
      if (asked >= until) lose();
      else if (await this.#try(until - asked, term.signal)) {
        until = asked + this.#renewMs;
        cancel();
        cancel = this.#clock.schedule(until - this.#clock.now(), lose);
      } else if (this.#lock.isHeldByOther) lose();
    }
    cancel();
    return held;
  }

  /** Takes or renews the lease. false: another replica holds it, or the API is unreachable. */
  async #try(withinMs: number, signal: AbortSignal): Promise<boolean> {
    const limit = new AbortController();
    const abort = () => limit.abort();
    const cancel = this.#clock.schedule(withinMs, abort);
    signal.addEventListener('abort', abort, { once: true });
    const before = this.#lock.holder;
    try {
      return await this.#lock.acquire(limit.signal);
    } catch (thrown) {
      const error = HearthError.from(thrown);
      if (!signal.aborted && error.code !== 'Conflict')
        this.#logger.warn('failed to acquire the leader lease', { error });
      return false;
    } finally {
      cancel();
      signal.removeEventListener('abort', abort);
      if (this.#lock.holder !== before) this.#options.onLeader?.(this.#lock.holder ?? '');
    }
  }

  async #release(): Promise<void> {
    const limit = new AbortController();
    const cancel = this.#clock.schedule(releaseTimeoutMs, () => limit.abort());
    try {
      await this.#lock.release(limit.signal);
    } catch (thrown) {
      this.#logger.info('failed to release the leader lease; it expires by itself', { error: thrown });
    } finally {
      cancel();
    }
  }

  #jittered(): number {
    return this.#retryMs * (1 + this.#clock.random() / 5);
  }
}
