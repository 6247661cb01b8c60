import { counted, formatBytes, listed } from '@hearth/common';
import { affinityOf } from './affinity.ts';
import { type Assignment, assign, waitingFor } from './assignment.ts';
import { type Holding, hasRoom } from './caches.ts';
import { Cluster, type Feasible } from './cluster.ts';
import type { PlanInput, PodGroup } from './input.ts';
import type { GroupPlan, ReleaseReason, WarmPlan } from './plan.ts';

/**
 * Pure. Plans groups with a present plan first, then the others, in the given order; each plan takes room from later
 * groups. Returns plans in that order, whatever the order of nodes and running pods.
 */
export function plan(input: PlanInput): ReadonlyMap<string, GroupPlan> {
  const cluster = new Cluster(input);
  const groups = [
    ...input.groups.filter(({ planned }) => planned.length > 0),
    ...input.groups.filter(({ planned }) => planned.length === 0),
  ];
  return new Map(groups.map((group) => [group.key, planGroup(cluster, group)]));
}

function planGroup(cluster: Cluster, group: PodGroup): GroupPlan {
  const feasible = cluster.feasible(group);
  const holding = cluster.caches.holding(group.datasets);
  const assignment = assign(cluster, group, feasible, holding);
  if (assignment.nodes.length > 0) return warm(cluster, group, feasible, holding, assignment);

  const ever = cluster.everFeasible(group, feasible);
  if (ever.length === 0) return release('NoFeasibleNode', noFeasibleNode(cluster, group, feasible));
  const serving = ever.filter((node) => cluster.filter.serving.has(node));
  if (serving.length === 0) return release('NoAgent', noAgent(cluster, ever));
  const roomy = serving.filter((node) => hasRoom(holding, cluster.caches.available, node));
  if (roomy.length === 0) return release('NoRoom', noRoom(cluster, holding, serving));
  if (assignment.cold.length > 0) {
    // The pods would not wait for the nodes with room, but start cold on these; so they start at once.
    const cold = assignment.cold.filter((node) => cluster.filter.serving.has(node));
    if (cold.length === 0) return release('NoAgent', noAgent(cluster, assignment.cold));
    return release('NoRoom', noRoom(cluster, holding, cold));
  }
  const nodes = waitingFor(cluster, group, feasible, holding, roomy);
  return warm(cluster, group, feasible, holding, { nodes, places: [], cold: [] });
}

function release(reason: ReleaseReason, message: string): GroupPlan {
  return { kind: 'release', reason, message };
}

/** Takes the room of the plan from the cluster. */
function warm(
  cluster: Cluster,
  group: PodGroup,
  feasible: Feasible,
  holding: Holding,
  assignment: Assignment,
): WarmPlan {
  const { nodes, places } = assignment;
  const affinity = affinityOf(cluster, group, feasible, holding, assignment);
  for (const node of places) cluster.place(group, node);
  for (const node of nodes) cluster.caches.reserve(group.datasets, node, holding);
  const pods = places.map((node, index): [string, string] => [
    group.pods[index] as string,
    cluster.nodes.at(node).name,
  ]);
  return {
    kind: 'warm',
    nodes: nodes.map((node) => ({
      node: cluster.nodes.at(node).name,
      missingBytes: cluster.caches.missing(group.datasets, node),
    })),
    assignment: new Map(pods),
    affinity,
    message: sentence(cluster, group, holding, assignment),
  };
}

function sentence(
  cluster: Cluster,
  group: PodGroup,
  { total, missing }: Holding,
  { nodes, places }: Assignment,
): string {
  const all = formatBytes(total);
  const parts = nodes.map((node) => {
    const lacks = missing[node] as number;
    const { name } = cluster.nodes.at(node);
    return lacks === 0 ? `${name} has all ${all}` : `${name} lacks ${formatBytes(lacks)} of ${all}`;
  });
  const where = listed(parts, { separator: '; ' });
  if (places.length === 0) {
    return `No node takes a pod now. When others end it could go where the bytes are to be: ${where}.`;
  }
  const left = group.pods.length - places.length;
  const rest = left === 0 ? '' : ` ${counted(left, 'more pod')} fit on no node that can hold the bytes now.`;
  return `${counted(places.length, 'pod')} on ${counted(nodes.length, 'node')}: ${where}.${rest}`;
}

/** Why no node could ever take a pod: the number of nodes that fail at each filter first. */
function noFeasibleNode(cluster: Cluster, group: PodGroup, { selected, ever }: Feasible): string {
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

function noAgent(cluster: Cluster, feasible: readonly number[]): string {
  const names = listed(cluster.nodes.names(feasible));
  return `Nodes that could take a pod have no agent that serves, or no hostname of their own: ${names}.`;
}

/** `serving`: nodes that could take a pod and have an agent. Names the nodes that lack least. */
function noRoom(cluster: Cluster, { total, toReserve }: Holding, serving: readonly number[]): string {
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
