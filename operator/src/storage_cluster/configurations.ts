import {
  type DaemonSet,
  type KubernetesClient,
  type KubernetesObject,
  kinds,
  type Pod,
} from '@hearth/common/kubernetes';
import { clusterLabel, nodeGroupLabel } from '@hearth/common/resources';
import { componentLabel, ownedSelector } from '../kubernetes/index.ts';
import type { Component } from './names.ts';
import type { Observation } from './observation.ts';

const agent: Component = 'agent';

/** The volume by which an agent is given its configuration. */
export const configurationVolume = 'configuration';

/** The ConfigMap that an agent's pod reads its configuration from; '' when it is no agent's. */
export function configurationOf(pod: Pick<Pod, 'spec'>): string {
  const volume = pod.spec?.volumes?.find(({ name }) => name === configurationVolume);
  return volume?.configMap?.name ?? '';
}

/**
 * True while an agent may still begin with this ConfigMap: a pod names it, or the DaemonSet does, or its controller has
 * not seen yet that the DaemonSet names another one. A DaemonSet that makes no pods any more cannot begin to.
 */
export function mayBeRead(configMap: KubernetesObject, { owned, configurations }: Observation): boolean {
  const name = configMap.metadata?.name ?? '';
  if (configurations.has(name)) return true;
  return owned.some(({ type, object }) => {
    const { labels, generation = 0 } = object.metadata ?? {};
    if (type.kind !== kinds.DaemonSet.kind || labels?.[componentLabel] !== agent) return false;
    if (labels?.[nodeGroupLabel] !== configMap.metadata?.labels?.[nodeGroupLabel]) return false;
    const { spec, status } = object as DaemonSet;
    return (status?.observedGeneration ?? 0) < generation || configurationOf(spec?.template ?? {}) === name;
  });
}

/** The same of the pods that there are at this moment: what is reflected of them may be older than the DaemonSets. */
export async function isReadByPods(
  api: Pick<KubernetesClient, 'list'>,
  cluster: string,
  name: string,
  namespace: string,
  signal: AbortSignal,
): Promise<boolean> {
  const labelSelector = `${ownedSelector},${clusterLabel}=${cluster},${componentLabel}=${agent}`;
  const { items } = await api.list(kinds.Pod, { namespace, labelSelector }, signal);
  return items.some((pod) => configurationOf(pod) === name);
}
