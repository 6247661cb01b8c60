import { counted, formatBytes, listed } from '@hearth/common';
import { affinityOf } from './affinity.ts';
import { type Assignment, assign, waitingFor } from './assignment.ts';
import { type Holding, hasRoom } from './caches.ts';
import { Cluster, type Feasible } from './cluster.ts';
import type { PlanInput, PodGroup } from './input.ts';
import type { GroupPlan, ReleaseReason, WarmPlan } from './plan.ts';
import { noAgent, noFeasibleNode, noRoom } from './refusal.ts';

/**
 * Plans all groups, one after the other: first those that have a plan already, which is kept as far as it can be, then
 * the others, each in the order in which they are given; the answer has the same order. What is planned for one group is
 * taken for those after it. Pure: the same input, in whatever order its nodes and running pods are, has the same answer.
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
    // It would not wait until others end where the bytes fit, but run cold where it can now; then better at once.
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

/** The plan; takes what it needs from the cluster. */
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
