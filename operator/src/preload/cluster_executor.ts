import type { Logger } from '@hearth/common';
import type { ClusterAgents } from '../agents/index.ts';
import { AwayNodes } from './away_nodes.ts';
import { JobBook, type JobBookOptions } from './job_book.ts';
import { uidOfJob } from './job_request.ts';
import { PinLedger } from './pin_ledger.ts';

/** What the executor keeps of the agents of one StorageCluster. */
export class ClusterExecutor {
  readonly agents: ClusterAgents;
  readonly jobs: JobBook;
  readonly pins: PinLedger;
  readonly away = new AwayNodes();
  readonly #logger: Logger;

  /** `now`: by the clock that CachePreloads are stamped by, milliseconds since the epoch. */
  constructor(agents: ClusterAgents, options: Pick<JobBookOptions, 'changed' | 'logger'>, now: () => number) {
    this.agents = agents;
    this.#logger = options.logger.child({ cluster: agents.cluster });
    this.jobs = new JobBook({ ...options, agents, now: Date.now });
    this.pins = new PinLedger(agents, now);
  }

  /** Ends what CachePreloads left behind that went while nobody could be asked. `lives`: by uid. */
  async sweep(lives: (uid: string) => boolean, signal: AbortSignal): Promise<void> {
    await this.pins.load(signal);
    for (const name of this.jobs.running()) {
      const uid = uidOfJob(name);
      if (uid === undefined || lives(uid)) continue;
      this.#logger.info('a warm job of a CachePreload that is gone is cancelled', { job: name });
      this.jobs.note(await this.agents.call('cancelWarmJob', { name }, { signal }));
      this.jobs.forget(uid);
    }
    for (const uid of this.pins.uids()) {
      if (lives(uid)) continue;
      this.#logger.info('pins of a CachePreload that is gone are released', { uid });
      await this.pins.releaseAll(uid, signal);
    }
  }

  close(): void {
    this.jobs.close();
  }
}
