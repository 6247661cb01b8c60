import { type Holding, hasRoom } from './caches.ts';
import type { Cluster, Feasible } from './cluster.ts';
import type { PodGroup } from './input.ts';
import { Ranking } from './ranking.ts';

/** Where the pods of a group go. */
export interface Assignment {
  /** Nodes that are to hold the bytes: those that are kept of an older plan, and those that were chosen, in this order. */
  nodes: readonly number[];
  /** By pod, in the order of the group; fewer than pods when the rest fits nowhere. */
  places: readonly number[];
  /** Nodes that could take a pod that is left, but cannot hold the bytes. */
  cold: readonly number[];
}

/**
 * Gives the pods of a group their nodes, one after the other as the scheduler does, each the best one of those that take
 * it. Nodes that hold the bytes are filled first, and one that was chosen before another is: so there are as few new
 * copies as the pods and their topology spread allow. Takes nothing from the cluster yet.
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

/** The best node of some of which none takes a pod now; those of the plan that there is, when they are among them. */
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
