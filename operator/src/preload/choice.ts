import { counted, listed } from '@hearth/common';
import type { CachePreload } from '@hearth/common/resources';
import { hasLabels } from '../kubernetes/index.ts';
import type { ObservedNode, ObservedPreload } from './observation.ts';
import { missingRoom, residentOf } from './room.ts';
import type { Wanted } from './wanted.ts';

/** Where the bytes are to be, and what is not as it was asked for. */
export interface Choice {
  nodes: readonly string[];
  /** Undefined: as asked. */
  trouble: { reason: 'TooFewNodes' | 'AwaitingPlan' | 'NoNodes'; message: string } | undefined;
  /** Nodes that would do if they had room, with the bytes that are missing. */
  cramped: ReadonlyMap<string, number>;
  /** Nodes that were given up for others. */
  replaced: readonly string[];
}

/** Pure. The nodes of a CachePreload: given by its spec, by the plan for its pods, or chosen here. */
export function chooseNodes(preload: CachePreload, observed: ObservedPreload, wanted: readonly Wanted[]): Choice {
  const { placement } = preload.spec;
  const fixed = (nodes: readonly string[], trouble?: Choice['trouble']): Choice => {
    return { nodes, trouble, cramped: new Map(), replaced: [] };
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

/** Pure. Nodes that gated pods are planned for. The release before this field kept them in its memory, and in the status. */
export function plannedNodesOf({ spec, status }: CachePreload): readonly string[] {
  return spec.placement.gatedPods?.nodes ?? (status?.nodes ?? []).map(({ name }) => name);
}

/**
 * Nodes that were chosen before stay while they can serve, so that bytes are not brought twice; then those that hold
 * most of the bytes, those with most room, and by name.
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
  const cramped = new Map<string, number>();
  const candidates = observed.nodes.filter((node) => {
    const reason = unfitness(node, preload, observed, before.has(node.name));
    const missing = reason === undefined && !ready(node.name) ? missingRoom(node.name, preload, observed, wanted) : 0;
    if (missing > 0) cramped.set(node.name, missing);
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
  if (nodes.length === replicas) return { nodes, trouble: undefined, cramped: new Map(), replaced };
  const others = [
    ...Array.from(unfit, ([name, reason]) => `${name} ${reason}`),
    ...Array.from(cramped, ([name, bytes]) => `the cache of ${name} lacks ${bytes} bytes`),
  ].sort();
  const message = `spec.placement.replicas asks for ${counted(replicas, 'node')}, and ${nodes.length} of ${observed.nodes.length} qualify${others.length === 0 ? '' : `: ${listed(others, { most: 10, separator: '; ' })}`}`;
  return { nodes, trouble: { reason: 'TooFewNodes', message }, cramped, replaced };
}

/** Why a node cannot hold a replica now, whatever its room; undefined: it can. */
function unfitness(
  node: ObservedNode,
  { spec }: CachePreload,
  { agents, awaySince, now, graceMs }: ObservedPreload,
  chosen: boolean,
): string | undefined {
  if (!hasLabels(node, spec.placement.nodeSelector)) return 'does not have the labels of nodeSelector';
  const agent = agents?.nodes.get(node.name);
  // One that was chosen may be back in a moment, and then has the bytes already.
  const waits = chosen && now - (awaySince.get(node.name) ?? now) < graceMs;
  if (!node.ready && !waits) return 'is not Ready';
  if (agent === undefined && !waits) return 'has no agent';
  if (agent?.ready === false && !waits) return `has an agent that does not serve: ${agent.reason}`;
  return undefined;
}

function roomOf(node: string, { agents }: ObservedPreload): number {
  const status = agents?.nodes.get(node);
  return status === undefined ? 0 : Number(status.budgetBytes - status.pinnedBytes);
}
