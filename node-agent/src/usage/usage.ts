import { epochMs, HearthError, RecurringWork } from '@hearth/common';
import type { AgentContext } from '../context.ts';
import type { DatasetTables, ManifestKeeper } from '../datasets/index.ts';
import { Mirror, RecordTable } from '../records/index.ts';
import { evictionTime, type UsageRecord, usageSchema, withUses } from './record.ts';

/** Unpublished uses of a dataset on this agent. */
interface Pending {
  at: number;
  /** Number of uses that began. */
  count: number;
}

/**
 * Use of datasets in the cluster, passed to every engine, so that all holders of a dataset spread over several agents
 * evict it together, the least used datasets first. A mount, a published volume and a read through the control API
 * count as a use when they begin, and once in each interval with activity; a warm job only marks the dataset as wanted.
 */
export class Usage {
  readonly #context: AgentContext;
  readonly #datasets: DatasetTables;
  readonly #table;
  readonly #mirror;
  readonly #pending = new Map<string, Pending>();
  readonly #keeper: ManifestKeeper;
  readonly #off: () => void;
  readonly #turns: RecurringWork;

  constructor(context: AgentContext, datasets: DatasetTables, keeper: ManifestKeeper) {
    this.#context = context;
    this.#datasets = datasets;
    this.#keeper = keeper;
    this.#table = new RecordTable(context.store, 'usage/', usageSchema);
    this.#mirror = new Mirror(this.#table, context.logger);
    this.#mirror.onChange((changes) => {
      for (const { after } of changes) if (after !== undefined) this.#notify(after.dataset, after);
    });
    datasets.mirror.onChange((changes) => {
      for (const { id } of changes) this.#notify(id, this.#mirror.get(id));
    });
    this.#off = keeper.onOpened((manifest) => {
      for (const id of datasets.datasetsWith(manifest)) {
        if (datasets.mirror.get(id)?.manifest === manifest) this.#notify(id, this.#mirror.get(id));
      }
    });
    this.#turns = new RecurringWork(context.clock, context.timings.lastUseMs, () => this.#publishQuietly());
  }

  /** A use begins now on this agent. Cheap; written in the next interval. */
  began(dataset: string): void {
    this.#note(dataset, 1);
  }

  /** The dataset is wanted now, without a further use. */
  touched(dataset: string): void {
    this.#note(dataset, 0);
  }

  /** Use in the whole cluster; undefined: never used. */
  of(dataset: string): UsageRecord | undefined {
    return this.#mirror.get(dataset);
  }

  async close(): Promise<void> {
    this.#off();
    await this.#turns.close();
    await this.#mirror.close();
  }

  #note(dataset: string, count: number): void {
    const at = epochMs(this.#context.clock);
    this.#pending.set(dataset, { at, count: (this.#pending.get(dataset)?.count ?? 0) + count });
  }

  /** The engine knows only open manifests; it gets the use of others when they open. */
  #notify(dataset: string, usage: UsageRecord | undefined): void {
    const manifest = this.#datasets.mirror.get(dataset)?.manifest;
    if (manifest === undefined || manifest === '' || usage === undefined || !this.#keeper.isOpen(manifest)) return;
    this.#context.engine.setLastUse(manifest, evictionTime(usage));
  }

  #publishQuietly(): Promise<void> {
    return this.#publish().catch((thrown) =>
      this.#context.logger.debug('failed to publish the use of datasets', { error: HearthError.from(thrown) }),
    );
  }

  async #publish(): Promise<void> {
    const mounted = new Set<string>();
    for (const mount of await this.#context.engine.mounts()) {
      for (const dataset of this.#datasets.datasetsWith(mount.manifest)) mounted.add(dataset);
    }
    for (const dataset of mounted) this.touched(dataset);
    for (const [dataset, pending] of [...this.#pending]) {
      this.#pending.delete(dataset);
      if (this.#datasets.mirror.get(dataset) === undefined) continue;
      try {
        await this.#write(dataset, pending, mounted.has(dataset));
      } catch (thrown) {
        this.#note(dataset, pending.count);
        throw thrown;
      }
    }
  }

  /**
   * Agents that use a dataset at the same time would write the same record, so a continuing use counts once per
   * interval.
   */
  async #write(dataset: string, { at, count }: Pending, mounted: boolean): Promise<void> {
    const turnMs = this.#context.timings.lastUseMs;
    const isFresh = (known: UsageRecord | undefined) => known !== undefined && at - known.usedAt < turnMs / 2;
    if (count === 0 && isFresh(this.#mirror.get(dataset))) return;
    await this.#table.update(dataset, (present) => {
      const fresh = isFresh(present);
      if (count === 0 && fresh) return undefined;
      return withUses(present, { dataset, at, count: count + (mounted && !fresh && count === 0 ? 1 : 0) });
    });
  }
}
