import { counted, formatBytes, listed } from '@hearth/common';
import type { Holding } from './caches.ts';
import type { Cluster, Feasible } from './cluster.ts';
import type { PodGroup } from './input.ts';

/** Why no node could ever take a pod of the group: how many nodes fail at which filter, the first that they fail at. */
export function noFeasibleNode(cluster: Cluster, group: PodGroup, { selected, ever }: Feasible): string {
  const causes = new Map<string, number>();
  for (let node = 0; node < cluster.nodes.size; node++) {
    const cause = causeAt(cluster, group, { selected, ever }, node);
    causes.set(cause, (causes.get(cause) ?? 0) + 1);
  }
  const ordered = [...causes].sort(([a, left], [b, right]) => right - left || (a < b ? -1 : 1));
  const why = ordered.map(([cause, count]) => `${count} ${cause}`).join(', ');
  const nodes = counted(cluster.nodes.size, 'node');
  return `No node could take a pod, however long it waits: ${why === '' ? 'the cluster has none' : `of ${nodes} ${why}`}.`;
}

function causeAt(
  cluster: Cluster,
  { requests, spread }: PodGroup,
  { selected, ever }: Pick<Feasible, 'selected' | 'ever'>,
  node: number,
): string {
  if (!selected.has(node)) return 'not selected by node selector or affinity';
  if (!ever.has(node)) {
    const { labels } = cluster.nodes.at(node);
    const label = spread.find(({ hard, topologyKey }) => hard && labels[topologyKey] === undefined)?.topologyKey;
    return label === undefined ? 'cordoned or with taints that are not tolerated' : `without the label ${label}`;
  }
  const lacking = cluster.resources.lacking(node, requests);
  return lacking === undefined ? 'with its ports taken' : `with too little ${lacking}`;
}

/** `feasible`: nodes that could take a pod. */
export function noAgent(cluster: Cluster, feasible: readonly number[]): string {
  const names = listed(cluster.nodes.names(feasible));
  return `Nodes that could take a pod have no agent that serves, or no hostname of their own: ${names}.`;
}

/** `serving`: nodes that could take a pod and have an agent; those that lack the least are named. */
export function noRoom(cluster: Cluster, { total, toReserve }: Holding, serving: readonly number[]): string {
  const lacking = serving.map((node) => {
    const [needed, available] = [toReserve[node] as number, cluster.caches.available[node] as number];
    return { node, needed, available, short: needed - available };
  });
  lacking.sort((a, b) => a.short - b.short || a.node - b.node);
  const parts = lacking.map(
    ({ node, needed, available, short }) =>
      `${cluster.nodes.at(node).name} needs ${formatBytes(needed)} more and has room for ` +
      `${formatBytes(Math.max(0, available))}, so ${formatBytes(Math.min(short, needed))} are missing`,
  );
  return `The cache budgets are too small for ${formatBytes(total)}: ${listed(parts, { separator: '; ' })}.`;
}
