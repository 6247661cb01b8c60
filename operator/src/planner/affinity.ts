import type { Assignment } from './assignment.ts';
import { type Holding, percentOf } from './caches.ts';
import type { Cluster, Feasible } from './cluster.ts';
import type { PodGroup } from './input.ts';
import { NodeSet } from './node_set.ts';
import { hostnameLabel } from './nodes.ts';
import type { AffinityPlan } from './plan.ts';

/**
 * The affinity of the pods to their nodes. Required closes all other nodes, so it applies only if all pods that can run
 * now can also run together on the named nodes. Call before the pods take their places.
 */
export function affinityOf(
  cluster: Cluster,
  group: PodGroup,
  feasible: Feasible,
  holding: Holding,
  { nodes, places, cold }: Assignment,
): AffinityPlan {
  const preferred = (reason?: string): AffinityPlan => ({
    kind: 'Preferred',
    hostnames: hostnames(cluster, nodes),
    ...(reason === undefined ? {} : { reason }),
  });
  if (group.affinity === 'Preferred') return preferred();
  if (group.unmodelled.length > 0) {
    return preferred(`The pods use ${group.unmodelled.join(', ')}, whose places the plan does not know.`);
  }
  const left = group.pods.length - places.length;
  if (cold.length > 0) {
    return preferred(`${left} of ${group.pods.length} pods fit only on nodes that cannot hold the bytes.`);
  }
  const spread = group.spread.some(({ hard }) => hard);
  if (spread && left > 0 && places.length > 0) {
    return preferred(`Where topology spread will let ${left} of ${group.pods.length} pods run is not known yet.`);
  }
  const named = holders(cluster, group, feasible, holding, nodes);
  if (spread && !allFit(cluster, group, feasible, named, places)) {
    return preferred('With these nodes alone, topology spread would not let all pods run.');
  }
  return { kind: 'Required', hostnames: hostnames(cluster, named), preferredHostnames: hostnames(cluster, nodes) };
}

/** The planned nodes, then other nodes that hold enough bytes and could ever take a pod. */
function holders(
  cluster: Cluster,
  group: PodGroup,
  feasible: Feasible,
  holding: Holding,
  planned: readonly number[],
): number[] {
  const known = new Set(planned);
  const others = feasible.ever
    .and(cluster.filter.serving)
    .indexes()
    .filter(
      (node) =>
        percentOf(holding, node) >= group.minPercent && !known.has(node) && cluster.couldTake(group, feasible, node),
    );
  return [...planned, ...others];
}

/**
 * Topology spread counts only nodes that required affinity names. The scheduler may fill the nodes in any order, so
 * this tries an order and its reverse.
 */
function allFit(
  cluster: Cluster,
  group: PodGroup,
  feasible: Feasible,
  named: readonly number[],
  places: readonly number[],
): boolean {
  const within = new NodeSet(cluster.nodes.size);
  for (const node of named) within.add(node);
  return [named, named.toReversed()].every((order) => {
    const spread = cluster.spread(group, feasible, within);
    const slots = feasible.slots.slice();
    return places.every(() => {
      const node = order.find((one) => (slots[one] as number) > 0 && spread.allows(one));
      if (node === undefined) return false;
      slots[node] = (slots[node] as number) - 1;
      spread.place(node);
      return true;
    });
  });
}

function hostnames({ nodes }: Cluster, indexes: readonly number[]): string[] {
  return indexes.map((node) => nodes.at(node).labels[hostnameLabel] as string);
}
