import type { Node } from '@hearth/common/kubernetes';
import { placeOf, startupTaintKey } from '@hearth/common/resources';
import { hardTaints, type Taint } from './node_matching.ts';

/** The kept part of a node. */
export interface NodeFacts {
  name: string;
  uid: string;
  labels: Readonly<Record<string, string>>;
  createdAt: string;
  /** True when its kubelet says that it can run pods. */
  ready: boolean;
  /** Taints that keep away pods which do not tolerate them. */
  taints: readonly Taint[];
  /** True while it has the startup taint. */
  tainted: boolean;
  /** True when it is being emptied: cordoned, or marked by an autoscaler that is about to remove it. */
  leaving: boolean;
  zone: string;
  rack: string;
}

/** Taints by which Cluster Autoscaler and Karpenter mark a node that is to go. */
export const leavingTaints = ['ToBeDeletedByClusterAutoscaler', 'karpenter.sh/disrupted'];

/** True when a node has all of these labels; no selector asks for none. */
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
    tainted: node.spec?.taints?.some(({ key }) => key === startupTaintKey) ?? false,
    leaving:
      node.spec?.unschedulable === true || (node.spec?.taints?.some(({ key }) => leavingTaints.includes(key)) ?? false),
    ...placeOf(labels),
  };
}
