import { type LookParts, RecurringLook } from '../recurring_look.ts';

export interface TopologyParts extends LookParts {
  /** StorageClusters of which something runs on this node. */
  clusters: () => Promise<string[]>;
  /** Has the kubelet ask for the topology again. */
  renew: () => Promise<void>;
}

/**
 * Has the driver registered again when a StorageCluster comes to the node, since the kubelet reads the topology at a
 * registration only. One that leaves causes none: the operator takes its label off the node, and a registration would
 * interrupt mounts for nothing. The first look comes before the first registration, which tells what it finds.
 */
export class Topology extends RecurringLook {
  readonly #parts: TopologyParts;
  #told: ReadonlySet<string> | undefined;

  constructor(parts: TopologyParts) {
    super(parts, 'failed to tell the kubelet of the StorageClusters on this node');
    this.#parts = parts;
  }

  protected async mend(): Promise<void> {
    const { clusters, renew, logger } = this.#parts;
    const before = this.#told;
    const present = new Set(await clusters());
    const came = before === undefined ? [] : [...present].filter((cluster) => !before.has(cluster));
    if (came.length > 0) {
      logger.info('registering the driver again: a StorageCluster came to this node', { clusters: came });
      await renew();
    }
    this.#told = present;
  }
}
