import type { Repulsion, RunningPod } from './input.ts';
import { NodeSet } from './node_set.ts';
import type { Nodes } from './nodes.ts';
import { podSelector, selects } from './selector.ts';

type Labels = Readonly<Record<string, string>>;

/** InterPodAffinity, as far as pods that run have a say: the nodes that their required anti-affinity closes to others. */
export class Repulsions {
  readonly #nodes: Nodes;
  /** By what is repelled: the values of the topology label where. */
  readonly #repulsions = new Map<string, { repulsion: Repulsion; values: Set<number> }>();

  constructor(nodes: Nodes) {
    this.#nodes = nodes;
  }

  add(node: number, { repels = [] }: RunningPod): void {
    for (const repulsion of repels) {
      const value = this.#nodes.column(repulsion.topologyKey).of[node] as number;
      if (value < 0) continue;
      const name = JSON.stringify(repulsion);
      const known = this.#repulsions.get(name);
      if (known === undefined) this.#repulsions.set(name, { repulsion, values: new Set([value]) });
      else known.values.add(value);
    }
  }

  /** Nodes that refuse a pod with these labels. */
  refusing(namespace: string, labels: Labels): NodeSet {
    let refused = new NodeSet(this.#nodes.size);
    for (const { repulsion, values } of this.#repulsions.values()) {
      if (repulsion.namespaces?.includes(namespace) === false) continue;
      if (!selects(podSelector(repulsion.selector, [], labels), labels)) continue;
      const { of } = this.#nodes.column(repulsion.topologyKey);
      refused = refused.or(NodeSet.where(this.#nodes.size, (node) => values.has(of[node] as number)));
    }
    return refused;
  }
}
