import type { Logger } from '@hearth/common';
import type { ClusterAgents } from '../agents/index.ts';
import { AwayNodes } from './away_nodes.ts';
import { uidOfJob } from './job_request.ts';
import { JobTracker, type JobTrackerOptions } from './job_tracker.ts';
import { PinCache } from './pin_cache.ts';

/** The executor's state of one StorageCluster's agents. */
export class ClusterExecutor {
  readonly agents: ClusterAgents;
  readonly jobs: JobTracker;
  readonly pins: PinCache;
  readonly away = new AwayNodes();
  readonly #logger: Logger;

  /** `clock`: its date is that by which CachePreloads are stamped. */
  constructor(agents: ClusterAgents, options: Omit<JobTrackerOptions, 'agents'>) {
    this.agents = agents;
    this.#logger = options.logger.child({ cluster: agents.cluster });
    this.jobs = new JobTracker({ ...options, agents });
    this.pins = new PinCache(agents, options.clock);
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
