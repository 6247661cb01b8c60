import { type Clock, sleep, systemClock } from '../clock.ts';
import { HearthError } from '../error.ts';
import type { Logger } from '../logger.ts';
import type { KubernetesClient } from './client.ts';
import { LeaseLock } from './lease_lock.ts';

export interface LeaderElectionOptions {
  api: Pick<KubernetesClient, 'get' | 'create' | 'replace'>;
  namespace: string;
  /** Name of the Lease, which is made if it is not there. */
  name: string;
  /** Unique among replicas and restarts, such as the pod's name and a random suffix. */
  identity: string;
  /** A leader that did not renew for this time may be replaced. Absent: 15. */
  leaseSeconds?: number;
  /** A leader that could not renew for this time stops leading. Absent: 10. */
  renewSeconds?: number;
  /** Between tries. Absent: 2. */
  retrySeconds?: number;
  logger: Logger;
  /** Called when another replica, or this one, is seen to lead; '' when none does. */
  onLeader?: ((identity: string) => void) | undefined;
  clock?: Clock | undefined;
}

/** How long the lease is tried to be given back at the end, ms. */
const releaseWithinMs = 5_000;

/**
 * One leader among replicas, by a Lease, as client-go's leaderelection: a replica takes the lease only after it has
 * itself seen it unchanged for the lease's duration, so that clocks of machines need not agree. A leader counts its
 * own time from before the request that renewed the lease, and stops `leaseSeconds - renewSeconds` before another may
 * begin. That is no fence: work must end soon after its signal aborts, and writes should carry resource versions.
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
   * it to end, and tries again. Gives the lease back at the end. Returns when `signal` aborts or `lead` returns by
   * itself; when `lead` throws, that is logged and the lease is given back and tried for again.
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

  /** The time from which the lease counts; undefined when the signal aborted. */
  async #acquire(signal: AbortSignal): Promise<number | undefined> {
    while (!signal.aborted) {
      const asked = this.#clock.now();
      if (await this.#try(this.#renewMs, signal)) return asked;
      await sleep(this.#clock, this.#jittered(), signal);
    }
    return undefined;
  }

  /** One term. true: `lead` ended by itself. */
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
    // Two terms at a time in one process would be two leaders, so this waits as long as it takes.
    await work;
    if (held) await this.#release();
    return finished;
  }

  /** Keeps the lease until the term ends (true), or ends the term when it is lost (false). */
  async #renew(wonAt: number, term: AbortController): Promise<boolean> {
    let until = wonAt + this.#renewMs;
    let held = true;
    const lose = () => {
      if (term.signal.aborted) return;
      held = false;
      term.abort();
    };
    // Ends the term in time whatever a request may wait for.
    let cancel = this.#clock.schedule(until - this.#clock.now(), lose);
    for (;;) {
      await sleep(this.#clock, this.#jittered(), term.signal);
      if (term.signal.aborted) break;
      const asked = this.#clock.now();
      // A process that was stopped sees its timers in any order.
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

  /** Takes or renews the lease. false: another one has it, or the API cannot be asked now. */
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
    const cancel = this.#clock.schedule(releaseWithinMs, () => limit.abort());
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
