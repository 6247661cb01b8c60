import { type Holding, hasRoom } from './caches.ts';
import type { Cluster, Feasible } from './cluster.ts';
import type { PodGroup } from './input.ts';
import { Nearness } from './nearness.ts';

export interface Assignment {
  /** Nodes that should hold the bytes: nodes kept of the old plan, then new ones. */
  nodes: readonly number[];
  /** One node a pod, in the group's order; shorter than the group when some pods fit nowhere. */
  places: readonly number[];
  /** Nodes that could take a remaining pod, but cannot hold the bytes. */
  cold: readonly number[];
}

/**
 * Assigns the pods one by one, as the scheduler does, each to the best node that takes it. Fills nodes that hold the
 * bytes first, and nodes already chosen, so that the plan makes as few new copies as pods and topology spread allow.
 * Leaves the cluster unchanged.
 */
export function assign(cluster: Cluster, group: PodGroup, feasible: Feasible, holding: Holding): Assignment {
  const { available } = cluster.caches;
  const { serving } = cluster.filter;
  const candidates = feasible.free.filter((node) => serving.has(node) && hasRoom(holding, available, node));
  const kept = cluster.nodes.planned(group).filter((node) => candidates.includes(node));
  const spread = cluster.spread(group, feasible);
  const ranking = new Ranking(cluster, group, holding);
  const slots = feasible.slots.slice();
  const load = (node: number) => spread.load(node);
  const allowed = new Set(kept.filter((node) => spread.allows(node)));
  const places: number[] = [];
  const chosen = new Set<number>();
  for (let left = group.pods.length; left > 0; left--) {
    let best = -1;
    for (const node of candidates) {
      if (slots[node] === 0 || !spread.allows(node)) continue;
      if (best < 0 || ranking.isBetter(node, best, slots, left, load)) best = node;
    }
    if (best < 0) break;
    places.push(best);
    slots[best] = (slots[best] as number) - 1;
    spread.place(best);
    ranking.choose(best);
    chosen.add(best);
  }
  for (const node of kept) if (spread.allows(node)) allowed.add(node);
  const nodes = [...new Set([...kept.filter((node) => allowed.has(node)), ...chosen])];
  const open = places.length < group.pods.length ? feasible.free : [];
  return { nodes, places, cold: open.filter((node) => (slots[node] as number) > 0 && spread.allows(node)) };
}

/** The best node of candidates that take no pod now; the nodes of the present plan, if among them. */
export function waitingFor(
  cluster: Cluster,
  group: PodGroup,
  { slots }: Feasible,
  holding: Holding,
  candidates: readonly number[],
): number[] {
  const kept = cluster.nodes.planned(group).filter((node) => candidates.includes(node));
  if (kept.length > 0) return kept;
  const ranking = new Ranking(cluster, group, holding);
  const best = candidates.reduce((a, b) => (ranking.isBetter(b, a, slots, 1, () => 0) ? b : a));
  return [best];
}

/**
 * Compares two nodes for the next pod of a group. In this order:
 *
 * 1. nodes of the present plan;
 * 2. fewer bytes to bring, in whole percents; none for nodes that this plan already chose;
 * 3. more resident bytes, in whole percents;
 * 4. preferences: preferred node affinity, even topology spread, no PreferNoSchedule taint;
 * 5. room for more of the remaining pods, which saves copies; among complete nodes the emptier one;
 * 6. fewer bytes to bring, nearer sources, more available bytes, and the name.
 */
class Ranking {
  readonly #brought: Uint8Array;
  readonly #bringPercent: Uint8Array;
  readonly #missingPercent: Uint8Array;
  readonly #preferences: Int32Array | undefined;
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
    this.#preferences = preferences(cluster, group);
    this.#reluctance = cluster.filter.reluctance(group.tolerations);
  }

  /** The node needs the bytes anyway from now on. */
  choose(node: number): void {
    this.#brought[node] = 1;
  }

  /** `slots`: remaining slots by node; `pods`: number of pods left to place; `load`: see Spread. */
  isBetter(a: number, b: number, slots: Int32Array, pods: number, load: (node: number) => number): boolean {
    let order = (this.#planned[a] as number) - (this.#planned[b] as number);
    if (order !== 0) return order > 0;
    const toBring = this.#toBring(a);
    order = this.#toBring(b) - toBring;
    if (order !== 0) return order > 0;
    order = (this.#missingPercent[b] as number) - (this.#missingPercent[a] as number);
    if (order !== 0) return order > 0;
    if (this.#preferences !== undefined) {
      order = (this.#preferences[a] as number) - (this.#preferences[b] as number);
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

/** Rounded up, so that 0 means no byte. */
function percents(bytes: Float64Array, total: number): Uint8Array {
  const result = new Uint8Array(bytes.length);
  if (total === 0) return result;
  for (let node = 0; node < result.length; node++) result[node] = Math.ceil(((bytes[node] as number) * 100) / total);
  return result;
}

/** Weights of preferred node affinity; undefined without any. */
function preferences({ nodes }: Cluster, { preferredTerms }: PodGroup): Int32Array | undefined {
  if (preferredTerms.length === 0) return undefined;
  const weights = new Int32Array(nodes.size);
  for (const { weight, term } of preferredTerms) {
    for (const node of nodes.selectedBy(term).indexes()) weights[node] = (weights[node] as number) + weight;
  }
  return weights;
}
