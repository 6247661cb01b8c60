import { type Clock, HearthError, type Logger, RecurringWork, systemClock } from '@hearth/common';

export interface TopologyParts {
  /** StorageClusters of which something runs on this node. */
  clusters: () => Promise<string[]>;
  /** Has the kubelet ask for the topology again. */
  renew: () => Promise<void>;
  /** Milliseconds between looks. */
  everyMs: number;
  logger: Logger;
  clock?: Clock;
}

/**
 * Has the driver registered again when a StorageCluster comes to the node, since the kubelet reads the topology at a
 * registration only. One that leaves causes none: the operator takes its label off the node, and a registration would
 * interrupt mounts for nothing.
 */
export class Topology {
  readonly #parts: TopologyParts;
  readonly #clock: Clock;
  #looks: RecurringWork | undefined;
  #told: ReadonlySet<string> = new Set();

  constructor(parts: TopologyParts) {
    this.#parts = parts;
    this.#clock = parts.clock ?? systemClock;
  }

  /** Before the first registration, which tells what is on the node by then. */
  async start(): Promise<void> {
    this.#told = new Set(await this.#parts.clusters());
    this.#looks = new RecurringWork(this.#clock, this.#parts.everyMs, () => this.look());
  }

  async close(): Promise<void> {
    await this.#looks?.close();
  }

  /** Never fails: the next look tries again. */
  async look(): Promise<void> {
    const { clusters, renew, logger } = this.#parts;
    try {
      const before = this.#told;
      const present = new Set(await clusters());
      const came = [...present].filter((cluster) => !before.has(cluster));
      if (came.length > 0) {
        logger.info('registering the driver again: a StorageCluster came to this node', { clusters: came });
        await renew();
      }
      this.#told = present;
    } catch (thrown) {
      logger.warn('failed to list the StorageClusters on this node', { error: HearthError.from(thrown) });
    }
  }
}
