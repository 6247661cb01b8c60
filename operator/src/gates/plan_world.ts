import type { NodeStatus } from '@hearth/common/generated/hearth/v1/control.ts';
import { splitKey } from '@hearth/common/kubernetes';
import { registeredName } from '@hearth/common/resources';
import type { ClusterStatus } from '../agents/index.ts';
import type { PlannedNode } from '../planner/index.ts';

export type BareNode = Omit<PlannedNode, 'agent'>;

/** Pure. The planner's view of all nodes, with the ready agents of the Datasets' StorageCluster. */
export function plannedNodes(
  nodes: readonly BareNode[],
  status: ClusterStatus | undefined,
  datasets: Iterable<string>,
): PlannedNode[] {
  const wanted = new Map(Array.from(datasets, (key) => [registeredOf(key), key]));
  const pinned = pinnedBytes(status);
  return nodes.map((node) => {
    const agent = status?.nodes.get(node.name);
    if (agent?.ready !== true) return node;
    return { ...node, agent: agentOf(agent, pinned.get(node.name) ?? new Map(), wanted) };
  });
}

function registeredOf(key: string): string {
  const { namespace = '', name } = splitKey(key);
  return registeredName(namespace, name);
}

function agentOf(
  agent: NodeStatus,
  pins: ReadonlyMap<string, { bytes: number; missing: number }>,
  wanted: ReadonlyMap<string, string>,
): NonNullable<PlannedNode['agent']> {
  const residentBytes: Record<string, number> = {};
  for (const [registered, key] of wanted) {
    const bytes = agent.residentBytes[registered] ?? 0n;
    if (bytes > 0n) residentBytes[key] = Number(bytes);
  }
  const pinnedBytes: Record<string, number> = {};
  // Pinned bytes that have not arrived reserve room, too.
  let taken = Number(agent.pinnedBytes);
  for (const [registered, { bytes, missing }] of pins) {
    taken += missing;
    const key = wanted.get(registered);
    if (key !== undefined) pinnedBytes[key] = bytes;
  }
  return { availableBytes: Math.max(0, Number(agent.budgetBytes) - taken), residentBytes, pinnedBytes };
}

/** Pinned bytes, and missing ones among them, by node and name of the dataset. */
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
