import { HearthError, sleep } from '@hearth/common';
import type { AgentContext } from '../context.ts';
import type { LeaseId, Operation } from '../store/index.ts';
import { maxEpoch, type WritableVolumeRecord } from './record.ts';
import type { WritableVolumeTables } from './tables.ts';

/** One term of this agent as the leader of a volume. */
interface Term {
  epoch: number;
  /** Carries the leader's record. */
  lease: LeaseId;
  /** Of the transaction that began the term. */
  revision: number;
}

const resignMs = 2_000;

/**
 * This agent's leadership of one volume, whose log it has: begins a term, renews the engine's lease with the agent's,
 * and begins another term when one has ended, until `close`.
 *
 * Every term has an epoch of its own, because one transaction counts it and writes the leader's record. That record may
 * replace one of the same installation: the lock of the cache directory proves that the agent which wrote it has ended.
 * Any other leader's record must be gone first. The engine answers as the leader only while `Session.certainUntil` says
 * that the record exists, so two agents never lead at once.
 */
export class Leadership {
  readonly #context: AgentContext;
  readonly #tables: WritableVolumeTables;
  readonly #id: string;
  readonly #name: string;
  readonly #stop = new AbortController();
  readonly #detach: (() => void)[];
  readonly #ended: Promise<void>;
  /** The term in which the engine leads. */
  #term: Term | undefined;
  #reason = 'its leader is starting';

  constructor(context: AgentContext, tables: WritableVolumeTables, { id, name }: { id: string; name: string }) {
    this.#context = context;
    this.#tables = tables;
    this.#id = id;
    this.#name = name;
    const { session } = context;
    this.#detach = [session.onRenewed(() => this.#extend()), session.onLost(() => tables.leadersMirror.touch())];
    this.#ended = this.#run();
  }

  /** The reason why this agent does not lead now; empty while it leads. */
  get reason(): string {
    return this.#term === undefined ? this.#reason : '';
  }

  /** Resigns, so that the next term need not wait for the lease to expire. Never throws. */
  async close(): Promise<void> {
    this.#stop.abort();
    await this.#ended;
    for (const detach of this.#detach) detach();
  }

  async #run(): Promise<void> {
    const { clock, timings, logger } = this.#context;
    const signal = this.#stop.signal;
    let reported = '';
    while (!signal.aborted) {
      try {
        const term = await this.#begin(signal);
        if (term !== undefined) await this.#serve(term, signal);
        reported = '';
      } catch (thrown) {
        if (signal.aborted) return;
        const error = HearthError.from(thrown);
        this.#reason = error.message;
        if (error.message !== reported)
          logger.error('failed to lead a volume; retrying', { volume: this.#name, error });
        reported = error.message;
      }
      await sleep(clock, timings.electionMs * (0.5 + clock.random()), signal);
    }
  }

  /** Undefined: not now, for `#reason`. */
  async #begin(signal: AbortSignal): Promise<Term | undefined> {
    const { node, installation, session } = this.#context;
    const { volumes, leaders, store } = this.#tables;
    const lease = await session.lease(signal);
    const keys = { volume: volumes.key(this.#name), leader: leaders.key(this.#id) };
    const [volume, leader] = await Promise.all([
      store.get(keys.volume, { signal }),
      store.get(keys.leader, { signal }),
    ]);
    const record = volume === undefined ? undefined : volumes.decode(volume).value;
    if (volume === undefined || record?.id !== this.#id) return this.#wait('the store has no record of it');
    const former = leader === undefined ? undefined : leaders.decode(leader).value;
    if (former !== undefined && former.installation !== installation) {
      return this.#wait(`the lease of its leader on ${former.node} has not ended`);
    }
    if (record.epoch === maxEpoch) return this.#wait(`all ${maxEpoch} epochs are used; create another volume`);
    const epoch = record.epoch + 1;
    const next: WritableVolumeRecord = { ...record, epoch, logNode: node };
    const success: Operation[] = [
      volumes.replaceOperation(volume, next),
      leaders.putOperation(this.#id, { id: this.#id, node, installation, epoch }, lease),
    ];
    const compare = [
      { key: keys.volume, modRevision: volume.modRevision },
      { key: keys.leader, modRevision: leader?.modRevision ?? 0 },
    ];
    const { succeeded, revision } = await store.transact({ compare, success }, { signal });
    return succeeded ? { epoch, lease, revision } : undefined;
  }

  #wait(reason: string): undefined {
    this.#reason = reason;
    return undefined;
  }

  /** Leads until the record is gone or `signal` aborts. */
  async #serve(term: Term, signal: AbortSignal): Promise<void> {
    const { engine, logger } = this.#context;
    const { epoch } = term;
    const volume = this.#name;
    try {
      await engine.leadVolume({ id: this.#id, epoch: BigInt(epoch), until: this.#until(term) });
      this.#term = term;
      // The lease may have been renewed while the engine read the log.
      this.#extend();
      logger.info('this agent leads a volume', { volume, epoch });
      await this.#tables.leadersMirror.waitFor(() => (this.#isOver(term) ? true : undefined), signal);
      if (this.#tables.volumesMirror.get(volume)?.id !== this.#id) return;
      this.#reason = 'the lease of its leader ended, because the store did not answer in time';
      logger.warn('the lease of a volume ended; this agent leads it no longer', { volume, epoch });
    } finally {
      this.#term = undefined;
      await this.#resign(term);
    }
  }

  #until({ lease }: Term): number {
    return this.#context.session.certainUntil(lease);
  }

  #isOver(term: Term): boolean {
    if (this.#until(term) === 0) return true;
    const { leadersMirror } = this.#tables;
    return leadersMirror.revision >= term.revision && leadersMirror.get(this.#id)?.epoch !== term.epoch;
  }

  #extend(): void {
    const term = this.#term;
    if (term === undefined || this.#until(term) === 0) return;
    const lease = { id: this.#id, epoch: BigInt(term.epoch), until: this.#until(term) };
    try {
      this.#context.engine.extendVolumeLease(lease);
    } catch (thrown) {
      const error = HearthError.from(thrown);
      this.#context.logger.warn('the engine did not extend the lease of a volume', { volume: this.#name, error });
    }
  }

  /** Never throws: the engine ends a term by itself when its lease is over, and the record goes with the lease. */
  async #resign({ revision }: Term): Promise<void> {
    const { engine, logger } = this.#context;
    const failed = (thrown: unknown) =>
      logger.debug('failed to resign as the leader of a volume', {
        volume: this.#name,
        error: HearthError.from(thrown),
      });
    await engine.resignVolume(this.#id).catch(failed);
    const key = this.#tables.leaders.key(this.#id);
    const compare = [{ key, modRevision: revision }];
    const success: Operation[] = [{ kind: 'delete', key }];
    await this.#tables.store.transact({ compare, success }, { deadlineMs: resignMs }).catch(failed);
  }
}
