import type { Logger } from '@hearth/common';
import type { ClusterAgents } from '../agents/index.ts';
import { JobTracker, type JobTrackerOptions } from './job_tracker.ts';
import { PinCache } from './pin_cache.ts';
import { uidOfJob } from './wanted.ts';

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
