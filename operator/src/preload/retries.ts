import type { WarmJob } from '@hearth/common/generated/hearth/v1/control.ts';
import type { CachePreload } from '@hearth/common/resources';
import { retryDelayMs } from '../reconciler/index.ts';
import { retryKey } from './observation.ts';
import { jobsFor } from './progress.ts';
import type { Wanted } from './wanted.ts';

type Failing = { failures: number; until: number; job: string };

/** When the operator retries failed work on the nodes of one CachePreload (`retryDelayMs`). */
export class Retries {
  readonly #failing = new Map<string, Failing>();

  /** Takes the state of each node from its newest job. `now`: milliseconds since the epoch. */
  note(preload: CachePreload, jobs: readonly WarmJob[], wanted: readonly Wanted[], now: number): void {
    for (const one of wanted) {
      const seen = new Set<string>();
      for (const job of jobsFor(preload, { jobs }, one)) {
        for (const { node, state } of job.nodes) {
          if (!seen.has(node)) this.#note(retryKey(one.id, node), state, `${job.name} ${job.createdAt}`, now);
          seen.add(node);
        }
      }
    }
  }

  get until(): ReadonlyMap<string, number> {
    return new Map([...this.#failing].map(([key, { until }]) => [key, until]));
  }

  #note(key: string, state: string, job: string, now: number): void {
    const known = this.#failing.get(key);
    if (state === 'Succeeded') this.#failing.delete(key);
    if (state !== 'Failed' || known?.job === job) return;
    const failures = (known?.failures ?? 0) + 1;
    this.#failing.set(key, { failures, until: now + retryDelayMs(failures), job });
  }
}
