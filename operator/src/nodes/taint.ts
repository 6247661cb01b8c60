import type { Node } from '@hearth/common/kubernetes';
import { parseDuration, type StorageCluster, startupTaintKey } from '@hearth/common/resources';
import type { NodeFacts } from '../kubernetes/index.ts';

export type TaintDecision =
  | { kind: 'keep' }
  /** Looked at again after this time, milliseconds. */
  | { kind: 'wait'; ms: number }
  | { kind: 'remove'; late: boolean };

/** How far a node is on its way to run pods. */
export interface Arrival {
  agentReady: boolean;
  /** True when it holds the bytes that the cluster's policies demand of a joining node. */
  holdsDemanded: boolean;
}

/**
 * Decides on the startup taint of a node. `since`: when the node or its cluster came, or when the taint was put there
 * later, milliseconds since the epoch. A pod that needs a dataset is better off waiting for its agent and its bytes,
 * but not for ever: after the timeout the taint goes all the same.
 */
export function decideTaint(
  node: NodeFacts,
  cluster: StorageCluster | undefined,
  { agentReady, holdsDemanded }: Arrival,
  since: number,
  now: number,
): TaintDecision {
  if (!node.tainted || cluster === undefined || !cluster.spec.startupTaint.enabled) return { kind: 'keep' };
  if (agentReady && holdsDemanded) return { kind: 'remove', late: false };
  const afterMs = parseDuration(cluster.spec.startupTaint.timeout) ?? 600_000;
  const wait = since + afterMs - now;
  return wait > 0 ? { kind: 'wait', ms: wait } : { kind: 'remove', late: true };
}

/**
 * Pure. The change by which a node loses its startup taint; undefined: it has none. The list of taints is replaced as a
 * whole, so it must be the one that was read: the version makes sure.
 */
export function withoutStartupTaint({ metadata, spec }: Node): object | undefined {
  const taints = spec?.taints ?? [];
  const others = taints.filter(({ key }) => key !== startupTaintKey);
  if (others.length === taints.length) return undefined;
  const { uid, resourceVersion } = metadata ?? {};
  return { metadata: { uid, resourceVersion }, spec: { taints: others.length === 0 ? null : others } };
}
