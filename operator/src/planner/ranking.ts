import type { Holding } from './caches.ts';
import type { Cluster } from './cluster.ts';
import type { PodGroup } from './input.ts';
import { Nearness } from './nearness.ts';

/**
 * Which of two nodes is the better one for the next pod of a group. In this order:
 *
 * 1. a node of the plan that there is already;
 * 2. the one for which less has to be brought, in whole percents; nothing for one that this plan has chosen already;
 * 3. the one that has more now, in whole percents;
 * 4. what the pod wishes for: preferred node affinity, even topology spread, no PreferNoSchedule taint;
 * 5. one that takes more of the pods that are left, so that fewer copies do; of those that hold everything the emptier;
 * 6. fewer bytes to bring, agents that have them nearer, more room for them, and the name.
 */
export class Ranking {
  readonly #brought: Uint8Array;
  readonly #bringPercent: Uint8Array;
  readonly #missingPercent: Uint8Array;
  readonly #wishes: Int32Array | undefined;
  readonly #reluctance: Int32Array | undefined;
  readonly #planned: Uint8Array;
  readonly #holding: Holding;
  readonly #nearness: Nearness;
  readonly #available: Float64Array;

  constructor(cluster: Cluster, group: PodGroup, holding: Holding) {
    const { size } = cluster.nodes;
    this.#holding = holding;
    this.#available = cluster.caches.available;
    this.#brought = new Uint8Array(size);
    this.#planned = new Uint8Array(size);
    for (const name of group.planned) {
      const node = cluster.nodes.indexOf(name);
      if (node !== undefined) this.#planned[node] = 1;
    }
    this.#bringPercent = percents(holding.toBring, holding.total);
    this.#missingPercent = percents(holding.missing, holding.total);
    this.#nearness = new Nearness(cluster.places, this.#bringPercent);
    this.#wishes = wishes(cluster, group);
    this.#reluctance = cluster.filter.reluctance(group.tolerations);
  }

  /** The node has been chosen: bytes come there anyway. */
  choose(node: number): void {
    this.#brought[node] = 1;
  }

  /** `slots`: by node, those left; `pods`: how many are to be placed yet; `load`: see Spread. */
  isBetter(a: number, b: number, slots: Int32Array, pods: number, load: (node: number) => number): boolean {
    let order = (this.#planned[a] as number) - (this.#planned[b] as number);
    if (order !== 0) return order > 0;
    const toBring = this.#toBring(a);
    order = this.#toBring(b) - toBring;
    if (order !== 0) return order > 0;
    order = (this.#missingPercent[b] as number) - (this.#missingPercent[a] as number);
    if (order !== 0) return order > 0;
    if (this.#wishes !== undefined) {
      order = (this.#wishes[a] as number) - (this.#wishes[b] as number);
      if (order !== 0) return order > 0;
    }
    const [left, right] = [load(a), load(b)];
    if (left !== right) return left < right;
    if (this.#reluctance !== undefined) {
      order = (this.#reluctance[b] as number) - (this.#reluctance[a] as number);
      if (order !== 0) return order > 0;
    }
    const most = toBring > 0 ? pods : Number.POSITIVE_INFINITY;
    order = Math.min(slots[a] as number, most) - Math.min(slots[b] as number, most);
    if (order !== 0) return order > 0;
    order = (this.#holding.toBring[b] as number) - (this.#holding.toBring[a] as number);
    if (order !== 0) return order > 0;
    if (toBring > 0) {
      order = this.#nearness.of(a) - this.#nearness.of(b);
      if (order !== 0) return order > 0;
    }
    order = (this.#available[a] as number) - (this.#available[b] as number);
    if (order !== 0) return order > 0;
    return a < b;
  }

  #toBring(node: number): number {
    return this.#brought[node] === 1 ? 0 : (this.#bringPercent[node] as number);
  }
}

/** Rounded up, so that 0 is nothing at all. */
function percents(bytes: Float64Array, total: number): Uint8Array {
  const result = new Uint8Array(bytes.length);
  if (total === 0) return result;
  for (let node = 0; node < result.length; node++) result[node] = Math.ceil(((bytes[node] as number) * 100) / total);
  return result;
}

/** Weights of preferred node affinity; undefined: no wishes. */
function wishes({ nodes }: Cluster, { preferredTerms }: PodGroup): Int32Array | undefined {
  if (preferredTerms.length === 0) return undefined;
  const weights = new Int32Array(nodes.size);
  for (const { weight, term } of preferredTerms) {
    for (const node of nodes.selectedBy(term).indexes()) weights[node] = (weights[node] as number) + weight;
  }
  return weights;
}
