import type { Node } from '@hearth/common/kubernetes';
import { placeOf, startupTaintKeys } from '@hearth/common/resources';
import { hardTaints, type Taint } from './node_matching.ts';

/** The projection of a node. */
export interface NodeFacts {
  name: string;
  uid: string;
  labels: Readonly<Record<string, string>>;
  createdAt: string;
  ready: boolean;
  taints: readonly Taint[];
  tainted: boolean;
  /** True for a node that is cordoned, being deleted, or being removed by an autoscaler. */
  leaving: boolean;
  zone: string;
  rack: string;
}

/** Taints of Cluster Autoscaler and Karpenter on nodes about to be removed. */
export const leavingTaints = ['ToBeDeletedByClusterAutoscaler', 'karpenter.sh/disrupted'];

export function hasLabels(
  { labels }: Pick<NodeFacts, 'labels'>,
  selector: Readonly<Record<string, string>> | undefined,
): boolean {
  return Object.entries(selector ?? {}).every(([name, value]) => labels[name] === value);
}

export function nodeFacts(node: Node): NodeFacts {
  const { name = '', uid = '', labels = {}, creationTimestamp = '' } = node.metadata ?? {};
  const ready = node.status?.conditions?.find(({ type }) => type === 'Ready');
  return {
    name,
    uid,
    labels,
    createdAt: creationTimestamp,
    ready: ready?.status === 'True',
    taints: hardTaints(node.spec?.taints ?? []).map(({ key, value, effect }) => ({ key, value, effect })),
    tainted: node.spec?.taints?.some(({ key }) => startupTaintKeys.includes(key)) ?? false,
    leaving:
      node.spec?.unschedulable === true ||
      node.metadata?.deletionTimestamp !== undefined ||
      (node.spec?.taints?.some(({ key }) => leavingTaints.includes(key)) ?? false),
    ...placeOf(labels),
  };
}
