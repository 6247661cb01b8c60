import type { Logger } from '@hearth/common';
import type { ClusterAgents } from '../agents/index.ts';
import { uidOfJob } from './job_request.ts';
import { JobTracker, type JobTrackerOptions } from './job_tracker.ts';
import { PinCache } from './pin_cache.ts';

/** The executor's state of one StorageCluster's agents. */
export class ClusterExecutor {
  readonly agents: ClusterAgents;
  readonly jobs: JobTracker;
  readonly pins: PinCache;
  /** Since when nodes do not serve, as far as this operator has seen, milliseconds since the epoch. */
  readonly awaySince = new Map<string, number>();
  readonly #logger: Logger;

  /** `clock`: its date is that by which CachePreloads are stamped. */
  constructor(agents: ClusterAgents, options: Omit<JobTrackerOptions, 'agents'>) {
    this.agents = agents;
    this.#logger = options.logger.child({ cluster: agents.cluster });
    this.jobs = new JobTracker({ ...options, agents });
    this.pins = new PinCache(agents, options.clock);
  }

  /** `names`: nodes that should serve; `now`: milliseconds since the epoch. */
  noteAway(names: Iterable<string>, serves: (name: string) => boolean, now: number): void {
    for (const name of names) {
      if (serves(name)) this.awaySince.delete(name);
      else if (!this.awaySince.has(name)) this.awaySince.set(name, now);
    }
  }

  /** Ends what CachePreloads left behind that went while no agent could be asked. `lives`: by uid. */
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
