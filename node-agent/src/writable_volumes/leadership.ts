import { HearthError, sleep } from '@hearth/common';
import type { AgentContext } from '../context.ts';
import type { LeaseId, Operation } from '../store/index.ts';
import { type Election, elect, mayLead } from './election.ts';
import { keepFollowers } from './followers.ts';
import { maxEpoch, type WritableVolumeRecord } from './record.ts';
import type { WritableVolumeTables } from './tables.ts';

/** One term of this agent as the leader of a volume. */
interface Term {
  epoch: number;
  /** Carries the leader's record. */
  lease: LeaseId;
  /** Of the transaction that began the term. */
  revision: number;
  /** As that transaction left them. */
  followers: string[];
}

const resignMs = 2_000;
/** A candidate's log that does not answer within this time does not count. */
const positionMs = 1_000n;

/**
 * This agent's leadership of one volume, whose log or a copy of it this agent has: begins a term when there is no
 * leader, renews the engine's lease with the agent's, and begins another term when one has ended, until `close`.
 *
 * Every term has an epoch of its own, because one transaction counts it and writes the leader's record. That record may
 * replace one of the same installation: the lock of the cache directory proves that the agent which wrote it has ended.
 * Any other leader's record must be gone first; a follower then waits a moment for the agent that led, which may have
 * restarted, and leads if its log is the longest that answers (election.ts). The engine answers as the leader only while `Session.certainUntil` says
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
      if (!(await this.#vacancy(signal))) await sleep(clock, timings.electionMs * (0.5 + clock.random()), signal);
    }
  }

  /** Waits while another agent leads, and then for the agent that led. False: no other one leads. */
  async #vacancy(signal: AbortSignal): Promise<boolean> {
    const { clock, timings, installation } = this.#context;
    const { leadersMirror } = this.#tables;
    const other = () => {
      const leader = this.#tables.leaderOf(this.#id);
      return leader !== undefined && leader.installation !== installation ? leader : undefined;
    };
    if (other() === undefined) return false;
    try {
      await leadersMirror.waitFor(() => (other() === undefined ? true : undefined), signal);
      const record = this.#tables.volumesMirror.get(this.#name);
      if (record?.logInstallation !== installation) {
        await sleep(clock, timings.electionMs * (1 + 0.25 * clock.random()), signal);
      }
      return true;
    } catch {
      // The watch of the store ends with the agent.
      return false;
    }
  }

  /** Undefined: not now, for `#reason`. */
  async #begin(signal: AbortSignal): Promise<Term | undefined> {
    const { node, installation, session } = this.#context;
    const own = { node, installation };
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
    if (!mayLead(record, own)) return this.#wait('its leader has taken this node off the list of followers');
    if (record.epoch === maxEpoch) return this.#wait(`all ${maxEpoch} epochs are used; create another volume`);
    const epoch = record.epoch + 1;
    const { followers, reason } = await this.#elect(record, epoch);
    if (followers === undefined) return this.#wait(reason);
    const next: WritableVolumeRecord = { ...record, epoch, logInstallation: installation, logNode: node, followers };
    const success: Operation[] = [
      volumes.replaceOperation(volume, next),
      leaders.putOperation(this.#id, { id: this.#id, node, installation, epoch }, lease),
    ];
    const compare = [
      { key: keys.volume, modRevision: volume.modRevision },
      { key: keys.leader, modRevision: leader?.modRevision ?? 0 },
    ];
    const { succeeded, revision } = await store.transact({ compare, success }, { signal });
    return succeeded ? { epoch, lease, revision, followers } : undefined;
  }

  /** The log of a volume without followers is the only one. */
  async #elect(record: WritableVolumeRecord, epoch: number): Promise<Election> {
    const { node, installation, engine } = this.#context;
    const { logInstallation, logNode, followers } = record;
    if (followers.length === 0) return { followers, reason: '' };
    const nodes = new Set([node, ...followers, ...(logInstallation === installation ? [] : [logNode])]);
    const positions = await engine.volumeLogPositions(this.#id, BigInt(epoch), [...nodes], positionMs);
    return elect(record, { node, installation }, positions);
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
    const over = new AbortController();
    const followed = { id: this.#id, name: volume, epoch, followers: term.followers };
    let keeping: Promise<void> | undefined;
    try {
      const { followers } = term;
      await engine.leadVolume({ id: this.#id, epoch: BigInt(epoch), until: this.#until(term), followers });
      this.#term = term;
      // The lease may have been renewed while the engine read the log.
      this.#extend();
      logger.info('this agent leads a volume', { volume, epoch });
      keeping = keepFollowers(this.#context, this.#tables, followed, over.signal);
      await this.#tables.leadersMirror.waitFor(() => (this.#isOver(term) ? true : undefined), signal);
      if (this.#tables.volumesMirror.get(volume)?.id !== this.#id) return;
      this.#reason = 'the lease of its leader ended, because the store did not answer in time';
      logger.warn('the lease of a volume ended; this agent leads it no longer', { volume, epoch });
    } finally {
      this.#term = undefined;
      over.abort();
      await this.#resign(term);
      await keeping;
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
    const lease = { id: this.#id, epoch: BigInt(term.epoch), until: this.#until(term), followers: [] };
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
