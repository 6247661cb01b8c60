import { HearthError } from '@hearth/common';
import type { AgentContext } from '../context.ts';
import type { ManifestKeeper } from './keeper.ts';
import { type DatasetRecord, isLost } from './record.ts';
import type { Resolution } from './resolution.ts';
import type { DatasetTables } from './table.ts';

/** Maximum factor of the pause between failing attempts. */
const maxPauseFactor = 16;
/** Each listing may need memory for millions of files; further datasets wait for a later look. */
const maxConcurrentListings = 4;

/** A manifest that a dataset names and that no ready agent has. */
interface Loss {
  manifest: string;
  /** `attempts` of the dataset's record when last seen. */
  attempts: number;
  /** Clock time of the first failed search, ms. */
  since: number;
  /** Consecutive failures to list the dataset again. */
  failures: number;
}

type LossContext = Pick<AgentContext, 'clock' | 'logger' | 'timings'>;

/**
 * Keeps Ready datasets readable. A manifest is lost when the disks of all agents that had it are lost, such as that of
 * the listing agent before any copy existed. Every agent that misses a manifest lists the dataset again after
 * `goneGraceMs`, one agent at a time, with growing pauses after failures; meanwhile the dataset has failed, until an
 * agent comes back with the manifest or the listing succeeds.
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
      keeper.onOpened((digest) => {
        for (const name of tables.datasetsWith(digest)) this.#recover(tables.mirror.get(name));
      }),
      // All of them, as an earlier attempt may have failed.
      tables.mirror.onChange(() => {
        for (const dataset of tables.mirror.values()) this.#recover(dataset);
      }),
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
      if (this.#running.size < maxConcurrentListings) this.#run(dataset.name, () => this.#relist(dataset));
    }
  }

  /** Any agent's attempt restarts the wait, because other agents may still be fetching its manifest. */
  #isDue({ name, manifest, attempts, lastAttempt }: DatasetRecord): boolean {
    const { clock, timings } = this.#context;
    const now = clock.now();
    const loss = this.#losses.get(name);
    if (loss?.manifest === manifest && loss.attempts === attempts) {
      const pause = Math.min(maxPauseFactor, 2 ** loss.failures);
      return now >= loss.since + timings.goneGraceMs * pause;
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

  /** Recovers a dataset that failed for a missing manifest that is here now. */
  #recover(dataset: DatasetRecord | undefined): void {
    if (dataset === undefined || !this.#keeper.isOpen(dataset.manifest)) return;
    const { name, manifest } = dataset;
    this.#losses.delete(name);
    if (isLost(dataset)) this.#run(name, () => this.#makeReady(name, manifest));
  }

  async #makeReady(name: string, manifest: string): Promise<void> {
    await this.#tables.datasets.update(name, (present) => {
      if (present === undefined || present.manifest !== manifest || !isLost(present)) return undefined;
      const { errorCode: _, ...others } = present;
      return {
        ...others,
        state: 'Ready',
        message: `the last listing of the origin failed: ${present.lastAttempt.message}`,
      };
    });
  }

  /** Runs one task at a time for each dataset. */
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
