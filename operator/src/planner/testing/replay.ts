import type { PlanInput, PlannedNode, PodGroup, RunningPod } from '../input.ts';
import type { GroupPlan } from '../plan.ts';
import { refusedNow, type World } from './naive_filter.ts';

/** A group with its plan, and the cluster as it was when its turn came. */
export interface Turn {
  group: PodGroup;
  plan: GroupPlan;
  world: World;
  /** By node: bytes that plans of groups before have left. */
  available: ReadonlyMap<string, number>;
  /** Datasets that groups before bring, as 'node dataset'. */
  coming: ReadonlySet<string>;
}

/** Follows plans in their order, group by group, each on top of what those before it have taken. */
export function replay(input: PlanInput, plans: ReadonlyMap<string, GroupPlan>): Turn[] {
  let placed: readonly RunningPod[] = input.running;
  const available = new Map(input.nodes.map(({ name, agent }) => [name, agent?.availableBytes ?? 0]));
  const coming = new Set<string>();
  return [...plans].map(([key, plan]) => {
    const group = input.groups.find((one) => one.key === key) as PodGroup;
    const turn = {
      ...{ group, plan, world: { nodes: input.nodes, placed } },
      ...{ available: new Map(available), coming: new Set(coming) },
    };
    if (plan.kind === 'warm') {
      for (const { node } of plan.nodes) {
        available.set(node, (available.get(node) ?? 0) - bytesNeeded(input, turn, named(input, node)));
        for (const dataset of group.datasets) coming.add(`${node} ${dataset}`);
      }
      placed = [...placed, ...[...plan.assignment.values()].map((node) => podOn(group, node))];
    }
    return turn;
  });
}

export function podOn({ namespace, labels, requests, hostPorts }: PodGroup, node: string): RunningPod {
  return { namespace, labels, node, requests, hostPorts, deleting: false };
}

export function named({ nodes }: PlanInput, name: string): PlannedNode {
  return nodes.find((node) => node.name === name) as PlannedNode;
}

/** Bytes that a node has to give away of what is available for the datasets of a group. */
export function bytesNeeded(
  { datasets }: PlanInput,
  { group, coming }: Pick<Turn, 'group' | 'coming'>,
  node: PlannedNode,
): number {
  let needed = 0;
  for (const dataset of group.datasets) {
    if (coming.has(`${node.name} ${dataset}`)) continue;
    const size = datasets.get(dataset)?.bytes ?? 0;
    const kept = (node.agent?.pinnedBytes ?? node.agent?.residentBytes)?.[dataset] ?? 0;
    needed += size - Math.min(size, kept);
  }
  return needed;
}

/** Bytes that are not there now. */
export function bytesMissing({ datasets }: PlanInput, { datasets: keys }: PodGroup, node: PlannedNode): number {
  return keys.reduce((sum, key) => sum + (datasets.get(key)?.bytes ?? 0) - (node.agent?.residentBytes[key] ?? 0), 0);
}

/**
 * True when a node could be planned for the group at its turn, were it not for the pods: agent, hostname, room for
 * bytes.
 */
export function canHold(input: PlanInput, turn: Turn, node: PlannedNode): boolean {
  const host = node.labels['kubernetes.io/hostname'];
  const alone = input.nodes.filter(({ labels }) => labels['kubernetes.io/hostname'] === host).length === 1;
  const needed = bytesNeeded(input, turn, node);
  return (
    node.agent !== undefined &&
    host !== undefined &&
    alone &&
    (needed === 0 || needed <= (turn.available.get(node.name) ?? 0))
  );
}

/** Nodes that take a pod of the group in this world, and can hold the bytes. */
export function open(input: PlanInput, turn: Turn, world = turn.world): PlannedNode[] {
  return input.nodes.filter((node) => canHold(input, turn, node) && refusedNow(turn.group, node, world) === undefined);
}
