import type { StorageCluster } from '@hearth/common/resources';
import type { NodeFacts } from './node_facts.ts';
import { type Place, type Placement, placeNodes } from './placement.ts';
import type { Source } from './source.ts';

/** Where nodes belong now: worked out again when a node or a StorageCluster has changed, and not for every question. */
export class Placements {
  readonly #clusters: Source<StorageCluster>;
  readonly #nodes: Source<NodeFacts>;
  #known: Placement | undefined;

  constructor(clusters: Source<StorageCluster>, nodes: Source<NodeFacts>) {
    this.#clusters = clusters;
    this.#nodes = nodes;
  }

  /** Follows what places depend on, until the function that it gives is called. A controller's watch, before those of nodes. */
  start(): () => void {
    const forget = () => {
      this.#known = undefined;
    };
    const stops = [this.#clusters.onChange(forget), this.#nodes.onChange(forget)];
    return () => {
      for (const stop of stops) stop();
    };
  }

  async synced(): Promise<void> {
    await Promise.all([this.#clusters.synced(), this.#nodes.synced()]);
  }

  placeOf(node: string): Place | undefined {
    return this.#current.places.get(node);
  }

  /** Names of the nodes that belong to a StorageCluster. */
  nodesOf(cluster: string): string[] {
    return [...this.#current.places].flatMap(([node, place]) => (place.cluster === cluster ? [node] : []));
  }

  get #current(): Placement {
    this.#known ??= placeNodes(this.#clusters.all(), this.#nodes.all());
    return this.#known;
  }
}
