import type { StorageCluster } from '@hearth/common/resources';
import type { NodeFacts } from './node_facts.ts';
import { type Place, type Placement, placeNodes } from './placement.ts';
import type { Source } from './source.ts';

/** Where nodes belong now: worked out again when a node or a StorageCluster has changed, and not for every question. */
export class Placements {
  readonly #clusters: Source<StorageCluster>;
  readonly #nodes: Source<NodeFacts>;
  #known: Placement | undefined;
  readonly #stops: (() => void)[];

  constructor(clusters: Source<StorageCluster>, nodes: Source<NodeFacts>) {
    this.#clusters = clusters;
    this.#nodes = nodes;
    const forget = () => {
      this.#known = undefined;
    };
    this.#stops = [clusters.onChange(forget), nodes.onChange(forget)];
  }

  get current(): Placement {
    this.#known ??= placeNodes(this.#clusters.all(), this.#nodes.all());
    return this.#known;
  }

  placeOf(node: string): Place | undefined {
    return this.current.places.get(node);
  }

  close(): void {
    for (const stop of this.#stops) stop();
  }
}
