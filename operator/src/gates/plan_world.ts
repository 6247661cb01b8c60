import type { NodeStatus } from '@hearth/common/generated/hearth/v1/control.ts';
import { registeredName } from '@hearth/common/resources';
import type { ClusterStatus } from '../agents/index.ts';
import type { PlannedNode } from '../planner/index.ts';

/** What the operator knows of a node without its agent. */
export type BareNode = Omit<PlannedNode, 'agent'>;

/**
 * Pure. The nodes of the Kubernetes cluster as the planner takes them, for Datasets of one StorageCluster: its agents
 * that are ready serve on theirs; agents of others are of no use to them.
 */
export function plannedNodes(
  nodes: readonly BareNode[],
  status: ClusterStatus | undefined,
  datasets: Iterable<string>,
): PlannedNode[] {
  const wanted = Array.from(datasets, (key) => ({ key, registered: registeredOf(key) }));
  const pinned = pinnedBytes(status);
  return nodes.map((node) => {
    const agent = status?.nodes.get(node.name);
    if (agent?.ready !== true) return node;
    return { ...node, agent: agentOf(agent, pinned.get(node.name) ?? new Map(), wanted) };
  });
}

/** 'namespace/name' as agents know it. */
function registeredOf(key: string): string {
  const slash = key.indexOf('/');
  return registeredName(key.slice(0, slash), key.slice(slash + 1));
}

function agentOf(
  agent: NodeStatus,
  pins: ReadonlyMap<string, { bytes: number; missing: number }>,
  wanted: readonly { key: string; registered: string }[],
): NonNullable<PlannedNode['agent']> {
  // What is pinned and still on its way is spoken for as well.
  const coming = [...pins.values()].reduce((sum, { missing }) => sum + missing, 0);
  const taken = Number(agent.pinnedBytes) + coming;
  const residentBytes: Record<string, number> = {};
  const kept: Record<string, number> = {};
  for (const { key, registered } of wanted) {
    const resident = Number(agent.residentBytes[registered] ?? 0n);
    if (resident > 0) residentBytes[key] = resident;
    kept[key] = pins.get(registered)?.bytes ?? 0;
  }
  return { availableBytes: Math.max(0, Number(agent.budgetBytes) - taken), residentBytes, pinnedBytes: kept };
}

/** By node and name of the dataset, what pins keep there: all of it, and what of it has not come yet. */
function pinnedBytes(status: ClusterStatus | undefined): Map<string, Map<string, { bytes: number; missing: number }>> {
  const pinned = new Map<string, Map<string, { bytes: number; missing: number }>>();
  for (const { name, bytes, residency } of status?.datasets.values() ?? []) {
    for (const { node, pinned: isPinned, residentBytes } of residency) {
      if (!isPinned) continue;
      const ofNode = pinned.get(node) ?? new Map<string, { bytes: number; missing: number }>();
      const missing = Math.max(0, Number(bytes) - Number(residentBytes));
      pinned.set(node, ofNode.set(name, { bytes: Number(bytes), missing }));
    }
  }
  return pinned;
}
