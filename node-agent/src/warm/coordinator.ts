import { epochMs, HearthError } from '@hearth/common';
import type { AgentContext } from '../context.ts';
import { Election } from '../records/index.ts';
import { divideRate } from './rate.ts';
import type { WarmDivisionRecord, WarmJobRecord, WarmProgressRecord } from './record.ts';
import { hasEnded, type JobView } from './state.ts';
import type { WarmTables } from './table.ts';

/** Maximum number of ended jobs kept. */
const maxEndedJobs = 100;
const maxDeletions = 20;

/**
 * Cluster-wide duty of one agent: divides the rates of jobs among fetching agents, notes lost agents, records how jobs
 * ended, and deletes old jobs. All state is in the store, so any other agent can continue; transfers do not depend on
 * the coordinator.
 */
export class WarmCoordinator {
  readonly #context: AgentContext;
  readonly #tables: WarmTables;
  readonly #election: Election;
  readonly #cancel: () => void;
  /** Origin bytes at the last division, by job and node. */
  readonly #measured = new Map<string, Map<string, { bytes: bigint; at: number }>>();
  readonly #offs: (() => void)[];
  #turn: Promise<void> = Promise.resolve();
  #pending = false;

  constructor(context: AgentContext, tables: WarmTables) {
    this.#context = context;
    this.#tables = tables;
    const { clock, timings } = context;
    this.#election = new Election({ ...context, key: 'leaders/warm', retryMs: timings.electionMs });
    this.#cancel = clock.every(timings.divisionMs, () => this.#schedule(true));
    // Ends are written at once; divisions wait for the timer, because they measure rates.
    this.#offs = [tables.progressMirror, tables.jobsMirror].map((mirror) =>
      mirror.onChange(() => this.#schedule(false)),
    );
  }

  get leading(): boolean {
    return this.#election.leading;
  }

  async close(): Promise<void> {
    this.#cancel();
    for (const off of this.#offs) off();
    await this.#turn;
    await this.#election.close();
  }

  #schedule(divide: boolean): void {
    if (!this.#election.leading || (this.#pending && !divide)) return;
    this.#pending = true;
    this.#turn = this.#turn.then(async () => {
      this.#pending = false;
      try {
        await this.#work(divide);
      } catch (thrown) {
        this.#context.logger.warn('failed to coordinate warm jobs; retrying', {
          error: HearthError.from(thrown),
        });
      }
    });
  }

  async #work(divide: boolean): Promise<void> {
    const members = this.#context.members.caching();
    for (const job of this.#tables.jobsMirror.values()) {
      if (job.end !== undefined) continue;
      if (divide) await this.#divide(job, members);
      const view = this.#tables.view(job, members, this.#context.timings.goneGraceMs);
      if (hasEnded(view.state)) await this.#end(job, view);
    }
    if (divide) await this.#deleteOld();
  }

  async #divide(job: WarmJobRecord, members: ReadonlySet<string>): Promise<void> {
    const before = this.#tables.division(job.name);
    const progress = this.#tables.progressOf(job);
    const fetching = job.nodes.filter((node) => members.has(node) && isFetching(progress.get(node)));
    const after: WarmDivisionRecord = {
      job: job.name,
      shares: job.rateLimit === 0n ? {} : Object.fromEntries(this.#shares(job, fetching, progress, before)),
      goneSince: goneSince(job, members, progress, before, epochMs(this.#context.clock)),
    };
    if (before !== undefined && this.#tables.divisions.encode(before) === this.#tables.divisions.encode(after)) return;
    if (before === undefined && Object.keys(after.shares).length + Object.keys(after.goneSince).length === 0) return;
    const exists = [{ key: this.#tables.jobs.key(job.name), exists: true }];
    await this.#election.write([this.#tables.divisions.putOperation(job.name, after)], exists);
  }

  #shares(
    job: WarmJobRecord,
    fetching: readonly string[],
    progress: ReadonlyMap<string, WarmProgressRecord>,
    before: WarmDivisionRecord | undefined,
  ): Map<string, bigint> {
    const measured = this.#measured.get(job.name) ?? new Map<string, { bytes: bigint; at: number }>();
    this.#measured.set(job.name, measured);
    const at = this.#context.clock.now();
    const agents = fetching.map((node) => {
      const bytes = progress.get(node)?.originBytes ?? 0n;
      const last = measured.get(node);
      measured.set(node, { bytes, at });
      const elapsed = BigInt(Math.max(1, Math.round(at - (last?.at ?? at))));
      // A counter that decreased belongs to a restarted agent: measure from now on.
      const used = last === undefined || bytes < last.bytes ? undefined : ((bytes - last.bytes) * 1000n) / elapsed;
      return { node, share: used === undefined ? undefined : before?.shares[node], used: used ?? 0n };
    });
    return divideRate(job.rateLimit, agents);
  }

  async #end(job: WarmJobRecord, view: JobView): Promise<void> {
    const state = view.state as 'Succeeded' | 'Failed' | 'Cancelled';
    const end = {
      state,
      message: view.message,
      at: epochMs(this.#context.clock),
      ...(view.errorCode === undefined ? {} : { errorCode: view.errorCode }),
    };
    const row = this.#tables.jobsMirror.row(job.name);
    if (row === undefined) return;
    const compare = [{ key: this.#tables.jobs.key(job.name), modRevision: row.modRevision }];
    if (!(await this.#election.write([this.#tables.jobs.putOperation(job.name, { ...job, end })], compare))) return;
    this.#measured.delete(job.name);
    this.#context.logger.info('a warm job ended', { job: job.name, state, reason: view.message });
  }

  async #deleteOld(): Promise<void> {
    const ended = this.#tables.jobsMirror.values().filter((job) => job.end !== undefined);
    const oldest = epochMs(this.#context.clock) - this.#context.timings.endedJobMs;
    const old = ended
      .sort((a, b) => (b.end?.at ?? 0) - (a.end?.at ?? 0))
      .filter((job, index) => index >= maxEndedJobs || (job.end?.at ?? 0) < oldest)
      .slice(0, maxDeletions);
    if (old.length > 0) await this.#election.write(old.flatMap((job) => this.#tables.deletion(job.name)));
  }
}

function isFetching(progress: WarmProgressRecord | undefined): boolean {
  return progress === undefined || progress.state === 'Pending' || progress.state === 'Running';
}

/** Start of absence of each agent with an unfinished part; agents that came back are left out. */
function goneSince(
  job: WarmJobRecord,
  members: ReadonlySet<string>,
  progress: ReadonlyMap<string, WarmProgressRecord>,
  before: WarmDivisionRecord | undefined,
  now: number,
): Record<string, number> {
  const gone = job.nodes.filter((node) => {
    const state = progress.get(node)?.state;
    return !members.has(node) && (state === undefined || !hasEnded(state));
  });
  return Object.fromEntries(gone.map((node) => [node, before?.goneSince[node] ?? now]));
}
