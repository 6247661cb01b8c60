import { type Clock, HearthError, type Logger, within } from '@hearth/common';
import type { Members } from '../context.ts';
import { DatasetTables } from '../datasets/index.ts';
import type { Peers } from '../peers/index.ts';
import { Mirror, RecordTable } from '../records/index.ts';
import { ClusterStatistics } from '../statistics/index.ts';
import type { Store } from '../store/index.ts';
import { usageSchema } from '../usage/index.ts';
import { WarmTables } from '../warm/index.ts';
import { WritableVolumeTables } from '../writable_volumes/index.ts';
import type { ClusterSight } from './cluster_sight.ts';

export interface StandbyAgentOptions {
  node: string;
  store: Store;
  members: Members;
  logger: Logger;
  clock: Clock;
  /** The current reason why the agent does not serve. */
  reason: () => string;
  goneGraceMs: number;
  /** The caller closes it. */
  peers: Peers;
}

/** Time that a caller waits for the store's first answer, ms. */
const answerMs = 5_000;

/**
 * An agent without its cache, while the cache or the store is unusable: shows the cluster from the store, but holds no
 * bytes. Reads the store on first use.
 */
export class StandbyAgent {
  readonly logger: Logger;
  readonly clock: Clock;
  readonly #options: StandbyAgentOptions;
  #tables: Tables | undefined;
  #closed = false;

  constructor(options: StandbyAgentOptions) {
    this.logger = options.logger;
    this.clock = options.clock;
    this.#options = options;
  }

  get reason(): string {
    return this.#options.reason();
  }

  /** Throws `Unavailable` while the store does not answer, because a partial view of the cluster would mislead. */
  async sight(signal: AbortSignal): Promise<ClusterSight> {
    const { node, store, members, clock, goneGraceMs } = this.#options;
    if (this.#closed) throw new HearthError('Unavailable', 'the agent has started to serve; try again');
    this.#tables ??= new Tables(this.#options);
    const tables = this.#tables;
    try {
      await tables.ready(within(clock, answerMs, signal));
    } catch (thrown) {
      if (signal.aborted) throw thrown;
      const message = `${store.description} does not answer, so this agent does not know the cluster; the agent itself does not serve: ${this.reason}`;
      throw new HearthError('Unavailable', message, { cause: thrown });
    }
    const { datasets, warm, statistics, usage, volumes } = tables;
    return {
      node,
      clock,
      members,
      datasets,
      statistics,
      usage,
      jobs: () =>
        warm.jobsMirror.values().map((job) => ({ job, view: warm.view(job, members.caching(), goneGraceMs) })),
      mounts: async () => [],
      volumes,
      onStatusChange: (listener) => {
        const ends = [...tables.mirrors(), volumes, members].map((one) => one.onChange(listener));
        ends.push(statistics.onStored(listener));
        return () => {
          for (const end of ends) end();
        };
      },
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#tables?.close();
  }
}

/** The tables behind a status. */
class Tables {
  readonly datasets: DatasetTables;
  readonly warm: WarmTables;
  readonly statistics: ClusterStatistics;
  readonly volumes: WritableVolumeTables;
  readonly #usage;

  constructor({ node, store, members, logger, clock, peers }: StandbyAgentOptions) {
    this.datasets = new DatasetTables(store, logger, clock);
    this.warm = new WarmTables(store, logger, clock);
    this.statistics = new ClusterStatistics({
      node,
      store,
      members,
      logger,
      own: () => undefined,
      ask: (...asked) => peers.report(...asked),
    });
    this.volumes = new WritableVolumeTables(store, logger);
    this.#usage = new Mirror(new RecordTable(store, 'usage/', usageSchema), logger);
  }

  get usage() {
    return { of: (dataset: string) => this.#usage.get(dataset) };
  }

  mirrors(): { onChange(listener: () => void): () => void }[] {
    const { datasets, warm } = this;
    const ofJobs = [warm.jobsMirror, warm.progressMirror, warm.divisionsMirror];
    return [datasets.mirror, datasets.resolvingMirror, ...ofJobs];
  }

  async ready(signal: AbortSignal): Promise<void> {
    const { datasets, warm, statistics, volumes } = this;
    await Promise.all([datasets, warm, statistics, volumes, this.#usage].map((one) => one.ready(signal)));
  }

  async close(): Promise<void> {
    const { datasets, warm, statistics, volumes } = this;
    await Promise.all([datasets, warm, statistics, volumes, this.#usage].map((one) => one.close()));
  }
}
