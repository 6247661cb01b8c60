import { HearthError } from '@hearth/common';
import type { AgentContext } from '../context.ts';
import type { ManifestKeeper } from './keeper.ts';
import { type DatasetRecord, isLost } from './record.ts';
import type { Resolution } from './resolution.ts';
import type { DatasetTables } from './table.ts';

/** Of the pauses between attempts that fail. */
const longestPause = 16;
/** Each may need memory for millions of files; the others come to it at a later look. */
const listingsAtOnce = 4;

/** A manifest that a dataset names, and that was found with no ready agent. */
interface Loss {
  manifest: string;
  /** Of the dataset's record when it was seen last. */
  attempts: number;
  /** Since when it has been looked for, milliseconds of the clock. */
  since: number;
  /** Attempts in a row that failed to list it again. */
  failures: number;
}

type LossContext = Pick<AgentContext, 'clock' | 'logger' | 'pace'>;

/**
 * Sees to it that a Ready dataset can be read. A manifest goes when the agents that had it go with their disks: perhaps
 * just the one that listed it, before any other had a copy. Every agent that misses it lists the dataset again after
 * `goneGraceMs`, one at a time, with longer and longer pauses when that fails; the dataset has then failed until an agent
 * comes back with the manifest, or the origin can be listed.
 */
export class LostManifests {
  readonly #context: LossContext;
  readonly #tables: DatasetTables;
  readonly #keeper: ManifestKeeper;
  readonly #resolution: Pick<Resolution, 'relist'>;
  readonly #stop = new AbortController();
  /** By dataset. */
  readonly #losses = new Map<string, Loss>();
  readonly #running = new Map<string, Promise<void>>();
  readonly #ends: (() => void)[];

  constructor(
    context: LossContext,
    tables: DatasetTables,
    keeper: ManifestKeeper,
    resolution: Pick<Resolution, 'relist'>,
  ) {
    this.#context = context;
    this.#tables = tables;
    this.#keeper = keeper;
    this.#resolution = resolution;
    this.#ends = [
      keeper.onMissing((digest) => this.#missing(digest)),
      keeper.onOpened(() => this.#recover()),
      tables.mirror.onChange(() => this.#recover()),
    ];
  }

  async close(): Promise<void> {
    for (const end of this.#ends) end();
    this.#stop.abort();
    await Promise.all(this.#running.values());
  }

  #missing(digest: string): void {
    for (const dataset of this.#tables.mirror.values()) {
      if (dataset.manifest !== digest || !this.#isDue(dataset)) continue;
      if (this.#running.size < listingsAtOnce) this.#run(dataset.name, () => this.#relist(dataset));
    }
  }

  /** Every attempt, of whichever agent, begins the wait anew: others may still be fetching what it brought. */
  #isDue({ name, manifest, attempts, lastAttempt }: DatasetRecord): boolean {
    const { clock, pace } = this.#context;
    const now = clock.now();
    const loss = this.#losses.get(name);
    if (loss?.manifest === manifest && loss.attempts === attempts) {
      const pause = Math.min(longestPause, 2 ** loss.failures);
      return now >= loss.since + pace.goneGraceMs * pause;
    }
    const failed = loss?.manifest === manifest && lastAttempt.errorCode !== undefined;
    this.#losses.set(name, { manifest, attempts, since: now, failures: failed ? loss.failures + 1 : 0 });
    return false;
  }

  async #relist(dataset: DatasetRecord): Promise<void> {
    const { name, manifest } = dataset;
    this.#context.logger.warn('listing a dataset again: no ready agent has its manifest', {
      dataset: name,
      manifest,
    });
    await this.#resolution.relist(dataset, this.#stop.signal);
  }

  /** Datasets that failed for want of a manifest that is here. */
  #recover(): void {
    for (const dataset of this.#tables.mirror.values()) {
      const { name, manifest } = dataset;
      if (!this.#keeper.isOpen(manifest)) continue;
      this.#losses.delete(name);
      if (isLost(dataset)) this.#run(name, () => this.#makeReady(name, manifest));
    }
  }

  async #makeReady(name: string, manifest: string): Promise<void> {
    await this.#tables.datasets.update(name, (present) => {
      if (present === undefined || present.manifest !== manifest || !isLost(present)) return undefined;
      const { errorCode: _, ...others } = present;
      return {
        ...others,
        state: 'Ready',
        message: `the last look at the origin failed: ${present.lastAttempt.message}`,
      };
    });
  }

  /** One at a time for each dataset. */
  #run(name: string, work: () => Promise<void>): void {
    if (this.#running.has(name)) return;
    const running = work()
      .catch((thrown) => {
        if (this.#stop.signal.aborted) return;
        this.#context.logger.warn('failed to list a dataset without a manifest again', {
          dataset: name,
          error: HearthError.from(thrown),
        });
      })
      .finally(() => this.#running.delete(name));
    this.#running.set(name, running);
  }
}
