import { counted, listed } from '@hearth/common';
import type { CachePreload } from '@hearth/common/resources';
import { hasLabels } from '../kubernetes/index.ts';
import type { ObservedNode, ObservedPreload } from './observation.ts';
import { missingRoom, residentOf } from './room.ts';
import type { Wanted } from './wanted.ts';

export interface Choice {
  nodes: readonly string[];
  /** Undefined when the choice satisfies the spec. */
  trouble: { reason: 'TooFewNodes' | 'AwaitingPlan' | 'NoNodes'; message: string } | undefined;
  /** Nodes that only lack room, with the missing bytes. */
  lackingRoom: ReadonlyMap<string, number>;
  /** Former nodes that can no longer hold a replica. */
  replaced: readonly string[];
}

export function chooseNodes(preload: CachePreload, observed: ObservedPreload, wanted: readonly Wanted[]): Choice {
  const { placement } = preload.spec;
  const fixed = (nodes: readonly string[], trouble?: Choice['trouble']): Choice => {
    return { nodes, trouble, lackingRoom: new Map(), replaced: [] };
  };
  if (placement.nodeNames !== undefined) return fixed(placement.nodeNames);
  if (placement.allNodes !== undefined) {
    const nodes = observed.nodes.filter((node) => hasLabels(node, placement.nodeSelector)).map(({ name }) => name);
    if (nodes.length > 0) return fixed(nodes.sort());
    return fixed([], { reason: 'NoNodes', message: 'no node of the StorageCluster has the labels of nodeSelector' });
  }
  if (placement.replicas !== undefined) return chooseReplicas(placement.replicas, preload, observed, wanted);
  const planned = plannedNodesOf(preload);
  if (planned.length > 0) return fixed(planned);
  const message = observed.pods?.reason || 'the operator is choosing nodes for the pods';
  return fixed([], { reason: 'AwaitingPlan', message });
}

/** Pure. The nodes planned for gated pods. The previous release kept the plan in the status alone. */
export function plannedNodesOf({ spec, status }: CachePreload): readonly string[] {
  return spec.placement.gatedPods?.nodes ?? (status?.nodes ?? []).map(({ name }) => name);
}

/**
 * Keeps nodes chosen before while they can serve, so that agents do not copy bytes twice. Then prefers nodes by
 * resident bytes, by room, and by name.
 */
function chooseReplicas(
  replicas: number,
  preload: CachePreload,
  observed: ObservedPreload,
  wanted: readonly Wanted[],
): Choice {
  const before = new Map(preload.status?.nodes?.map((row) => [row.name, row]));
  const ready = (name: string) => before.get(name)?.phase === 'Ready';
  const unfit = new Map<string, string>();
  const lackingRoom = new Map<string, number>();
  const candidates = observed.nodes.filter((node) => {
    const reason = whyUnfit(node, preload, observed, before.has(node.name));
    const missing = reason === undefined && !ready(node.name) ? missingRoom(node.name, preload, observed, wanted) : 0;
    if (missing > 0) lackingRoom.set(node.name, missing);
    if (reason !== undefined) unfit.set(node.name, reason);
    return reason === undefined && missing === 0;
  });
  const rank = new Map(
    candidates.map(({ name }) => [
      name,
      { resident: residentOf(name, observed, wanted), room: roomOf(name, observed) },
    ]),
  );
  const order = (a: ObservedNode, b: ObservedNode): number => {
    const [left, right] = [rank.get(a.name), rank.get(b.name)];
    return (
      Number(ready(b.name)) - Number(ready(a.name)) ||
      Number(before.has(b.name)) - Number(before.has(a.name)) ||
      (right?.resident ?? 0) - (left?.resident ?? 0) ||
      (right?.room ?? 0) - (left?.room ?? 0) ||
      (a.name < b.name ? -1 : 1)
    );
  };
  const nodes = [...candidates]
    .sort(order)
    .slice(0, replicas)
    .map(({ name }) => name);
  const replaced = [...before.keys()].filter((name) => !nodes.includes(name) && unfit.has(name));
  if (nodes.length === replicas) return { nodes, trouble: undefined, lackingRoom: new Map(), replaced };
  const others = [
    ...Array.from(unfit, ([name, reason]) => `${name} ${reason}`),
    ...Array.from(lackingRoom, ([name, bytes]) => `the cache of ${name} lacks ${bytes} bytes`),
  ].sort();
  const message = `spec.placement.replicas asks for ${counted(replicas, 'node')}, and ${nodes.length} of ${observed.nodes.length} qualify${others.length === 0 ? '' : `: ${listed(others, { most: 10, separator: '; ' })}`}`;
  return { nodes, trouble: { reason: 'TooFewNodes', message }, lackingRoom, replaced };
}

/** Why a node cannot hold a replica, room aside; undefined when it can. */
function whyUnfit(
  node: ObservedNode,
  { spec }: CachePreload,
  { agents, unavailableSince, now, graceMs }: ObservedPreload,
  chosen: boolean,
): string | undefined {
  if (!hasLabels(node, spec.placement.nodeSelector)) return 'does not have the labels of nodeSelector';
  const agent = agents?.nodes.get(node.name);
  // A chosen node may return soon and already has the bytes.
  const waits = chosen && now - (unavailableSince.get(node.name) ?? now) < graceMs;
  if (!node.ready && !waits) return 'is not Ready';
  if (agent === undefined && !waits) return 'has no agent';
  if (agent?.ready === false && !waits) return `has an agent that does not serve: ${agent.reason}`;
  return undefined;
}

function roomOf(node: string, { agents }: ObservedPreload): number {
  const status = agents?.nodes.get(node);
  return status === undefined ? 0 : Number(status.budgetBytes - status.pinnedBytes);
}
