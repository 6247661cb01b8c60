import type { Node } from '@hearth/common/kubernetes';
import { parseDuration, type StorageCluster, startupTaintKeys } from '@hearth/common/resources';
import type { NodeFacts } from '../kubernetes/index.ts';

export type TaintDecision = { kind: 'keep' } | { kind: 'wait'; ms: number } | { kind: 'remove'; late: boolean };

export interface Arrival {
  agentReady: boolean;
  /** True when the node holds the Datasets of the join policies. */
  holdsDemanded: boolean;
}

/**
 * Pure. `since`: when node, cluster or taint appeared, milliseconds since the epoch. Pods should wait for the agent and
 * its bytes, but not forever: the timeout removes the taint anyway.
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

/** Pure. A merge patch for the observed version, since it replaces the whole list; undefined without the taint. */
export function withoutStartupTaint({ metadata, spec }: Node): object | undefined {
  const taints = spec?.taints ?? [];
  const others = taints.filter(({ key }) => !startupTaintKeys.includes(key));
  if (others.length === taints.length) return undefined;
  const { uid, resourceVersion } = metadata ?? {};
  return { metadata: { uid, resourceVersion }, spec: { taints: others.length === 0 ? null : others } };
}
