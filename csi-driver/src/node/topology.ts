import { type CheckParts, PeriodicCheck } from '../periodic_check.ts';

export interface TopologyParts extends CheckParts {
  /** StorageClusters with an agent or holder on this node. */
  clusters: () => Promise<string[]>;
  renew: () => Promise<void>;
}

/**
 * Registers the driver again when a StorageCluster appears on the node, since the kubelet reads the topology only at
 * registration. A StorageCluster that leaves needs none: the operator removes the label, and a registration would
 * interrupt mounts. The first check precedes the first registration.
 */
export class Topology extends PeriodicCheck {
  readonly #parts: TopologyParts;
  #registered: ReadonlySet<string> | undefined;

  constructor(parts: TopologyParts) {
    super(parts, 'failed to tell the kubelet of the StorageClusters on this node');
    this.#parts = parts;
  }

  protected async repair(): Promise<void> {
    const { clusters, renew, logger } = this.#parts;
    const before = this.#registered;
    const present = new Set(await clusters());
    const added = before === undefined ? [] : [...present].filter((cluster) => !before.has(cluster));
    if (added.length > 0) {
      logger.info('registering the driver again: a StorageCluster came to this node', { clusters: added });
      await renew();
    }
    this.#registered = present;
  }
}
