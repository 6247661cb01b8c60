import { HearthError, type Logger } from '@hearth/common';
import type { WarmJob } from '@hearth/common/generated/hearth/v1/control.ts';
import { type Clock, sleep } from '@hearth/common/kubernetes';
import type { ClusterAgents, ClusterStatus } from '../agents/index.ts';
import { PinCache } from './pin_cache.ts';
import { hasEnded, jobPrefix, uidOfJob } from './wanted.ts';

/** A stream lasts as long as its job, but no longer than this. */
const streamMs = 24 * 3_600_000;
const pauseMs = 1_000;
/** The agents' status may lag this much behind a new job. */
const settleMs = 60_000;

interface JobTrackerOptions {
  agents: Pick<ClusterAgents, 'stream' | 'status'>;
  changed: (job: WarmJob, before: WarmJob | undefined) => void;
  logger: Logger;
  /** The clock of `ClusterStatus.receivedAt`. */
  clock: Clock;
}

type Known = { job: WarmJob; at: number; stream: AbortController | undefined };

/**
 * Warm jobs of CachePreloads at the agents of one StorageCluster. Streams follow running jobs and report bytes within a
 * second; ended jobs come from the agents' status.
 */
export class JobTracker {
  readonly #options: JobTrackerOptions;
  readonly #known = new Map<string, Known>();

  constructor(options: JobTrackerOptions) {
    this.#options = options;
  }

  /** The newest report of each job of one CachePreload. */
  of(uid: string): WarmJob[] {
    const prefix = jobPrefix(uid);
    const status = this.#options.agents.status;
    const jobs = new Map<string, WarmJob>();
    for (const [name, job] of status?.jobs ?? []) if (name.startsWith(prefix)) jobs.set(name, job);
    for (const [name, known] of this.#known) {
      if (name.startsWith(prefix) && this.#isNewer(known, jobs.get(name), status)) jobs.set(name, known.job);
    }
    for (const job of jobs.values()) if (!hasEnded(job)) this.follow(job);
    return [...jobs.values()];
  }

  running(): string[] {
    const reported = [...(this.#options.agents.status?.jobs.values() ?? [])];
    return [...new Set([...reported, ...[...this.#known.values()].map(({ job }) => job)])]
      .filter((job) => !hasEnded(job))
      .map(({ name }) => name);
  }

  /** Records an agent's answer, which is newer than every earlier report. */
  note(job: WarmJob): void {
    const known = this.#known.get(job.name);
    this.#known.set(job.name, { job, at: this.#options.clock.now(), stream: known?.stream });
    if (!hasEnded(job)) this.follow(job);
  }

  follow(job: WarmJob): void {
    const known = this.#known.get(job.name) ?? { job, at: this.#options.clock.now(), stream: undefined };
    this.#known.set(job.name, known);
    if (known.stream !== undefined) return;
    known.stream = new AbortController();
    void this.#follow(job.name, known.stream);
  }

  forget(uid: string): void {
    for (const [name, { stream }] of this.#known) {
      if (!name.startsWith(jobPrefix(uid))) continue;
      stream?.abort();
      this.#known.delete(name);
    }
  }

  close(): void {
    for (const { stream } of this.#known.values()) stream?.abort();
    this.#known.clear();
  }

  /** A stream's report is newer than the status. Forgets an ended job that the status no longer has. */
  #isNewer(known: Known, reported: WarmJob | undefined, status: ClusterStatus | undefined): boolean {
    if (known.stream !== undefined) return true;
    const later = status !== undefined && status.receivedAt > known.at;
    if (reported === undefined && later && status.receivedAt - known.at > settleMs) {
      this.#known.delete(known.job.name);
      return false;
    }
    return reported === undefined || !later || reported.createdAt < known.job.createdAt;
  }

  async #follow(name: string, stream: AbortController): Promise<void> {
    const { agents, logger, clock } = this.#options;
    const { signal } = stream;
    while (!signal.aborted) {
      try {
        for await (const job of agents.stream('watchWarmJob', { name }, { signal, deadlineMs: streamMs })) {
          const known = this.#known.get(name);
          if (known === undefined || signal.aborted) return;
          const before = known.job;
          known.job = job;
          known.at = clock.now();
          if (hasEnded(job)) known.stream = undefined;
          this.#options.changed(job, before);
          if (hasEnded(job)) return;
        }
      } catch (thrown) {
        if (signal.aborted) return;
        const error = HearthError.from(thrown);
        logger.debug('failed to read the progress of a warm job; retrying', { job: name, error });
        if (error.code === 'NotFound') {
          this.#known.delete(name);
          return;
        }
      }
      await sleep(clock, pauseMs, signal);
    }
  }
}

export class ClusterExecutor {
  readonly agents: ClusterAgents;
  readonly jobs: JobTracker;
  readonly pins: PinCache;
  /** Milliseconds since the epoch, by node, as this operator has seen it. */
  readonly unavailableSince = new Map<string, number>();
  readonly #logger: Logger;

  constructor(agents: ClusterAgents, options: Omit<JobTrackerOptions, 'agents'>) {
    this.agents = agents;
    this.#logger = options.logger.child({ cluster: agents.cluster });
    this.jobs = new JobTracker({ ...options, agents });
    this.pins = new PinCache(agents, options.clock);
  }

  /** Records which of the nodes do not serve at `now`, milliseconds since the epoch. */
  trackUnavailable(names: Iterable<string>, serves: (name: string) => boolean, now: number): void {
    for (const name of names) {
      if (serves(name)) this.unavailableSince.delete(name);
      else if (!this.unavailableSince.has(name)) this.unavailableSince.set(name, now);
    }
  }

  /** Cancels jobs and releases pins of CachePreloads that were deleted while no agent answered. `lives` takes a uid. */
  async sweep(lives: (uid: string) => boolean, signal: AbortSignal): Promise<void> {
    await this.pins.load(signal);
    for (const name of this.jobs.running()) {
      const uid = uidOfJob(name);
      if (uid === undefined || lives(uid)) continue;
      this.#logger.info('cancelled a warm job whose CachePreload is gone', { job: name });
      this.jobs.note(await this.agents.call('cancelWarmJob', { name }, { signal }));
      this.jobs.forget(uid);
    }
    for (const uid of this.pins.uids()) {
      if (lives(uid)) continue;
      this.#logger.info('released pins whose CachePreload is gone', { uid });
      await this.pins.releaseAll(uid, signal);
    }
  }

  close(): void {
    this.jobs.close();
  }
}
