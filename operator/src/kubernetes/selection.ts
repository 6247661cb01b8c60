import type { Pod } from '@hearth/common/kubernetes';
import { type NodeGroup, startupTaintKey } from '@hearth/common/resources';
import { hasLabels, leavingTaints, type NodeFacts } from './node_facts.ts';
import { type Expression, expressionHolds, isTolerated } from './node_matching.ts';

type PodToleration = NonNullable<NonNullable<Pod['spec']>['tolerations']>[number];

/**
 * Labels of nodes that no machine of this cluster is behind, so that no agent can run there: those of the virtual kubelet
 * and of AWS Fargate.
 */
const noVirtualNode: readonly Expression[] = [
  { key: 'type', operator: 'NotIn', values: ['virtual-kubelet'] },
  { key: 'eks.amazonaws.com/compute-type', operator: 'NotIn', values: ['fargate'] },
];

/** Taints that keep agents away unless a group names its tolerations: the nodes do other work, or are none. */
const reserved = new Set([
  'node-role.kubernetes.io/control-plane',
  'node-role.kubernetes.io/master',
  'virtual-kubelet.io/provider',
]);

/** A cache does not leave a node because that is not well, or is to go, or waits for the cache. */
const passing = new Set([startupTaintKey, ...leavingTaints]);
const ofConditions = 'node.kubernetes.io/';

/** Pure. Whether agents of a group belong on a node. */
export function selects(group: NodeGroup, node: Pick<NodeFacts, 'labels' | 'taints'>): boolean {
  const { labels } = node;
  const holds = (one: Expression) => expressionHolds(one, labels[one.key]);
  if (labels['kubernetes.io/os'] !== 'linux' || !hasLabels(node, group.nodeSelector)) return false;
  if (!noVirtualNode.every(holds)) return false;
  const terms = termsOf(group);
  if (terms.length > 0 && !terms.some(({ matchExpressions }) => matchExpressions.every(holds))) return false;
  const { tolerations } = group;
  const taints = node.taints.filter(({ key }) => !passing.has(key) && !key.startsWith(ofConditions));
  if (tolerations === undefined) return !taints.some(({ key }) => reserved.has(key));
  return taints.every((taint) => isTolerated(taint, tolerations));
}

/** Alternatives that a node's labels must satisfy beside the node selector; none: there is no such condition. */
export function termsOf({ affinity }: NodeGroup): readonly { matchExpressions: readonly Expression[] }[] {
  return affinity?.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
}

/** Tolerations of the pods on nodes. Kubernetes adds those of conditions of nodes to pods of DaemonSets. */
export function tolerationsOf({ tolerations }: NodeGroup): PodToleration[] {
  if (tolerations === undefined) return [{ operator: 'Exists' }];
  const own = tolerations.map(({ key, operator, value, effect }) => ({
    ...(key === undefined ? {} : { key }),
    operator,
    ...(value === undefined ? {} : { value }),
    ...(effect === undefined ? {} : { effect }),
  }));
  return [...own, ...[...passing].map((key) => ({ key, operator: 'Exists' }))];
}
