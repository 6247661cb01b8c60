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

export const configurationVolume = 'configuration';

/** The ConfigMap of an agent's pod; empty for other pods. */
export function configurationOf(pod: Pick<Pod, 'spec'>): string {
  const volume = pod.spec?.volumes?.find(({ name }) => name === configurationVolume);
  return volume?.configMap?.name ?? '';
}

/** A pod or the DaemonSet may name the ConfigMap, or the controller has not yet observed the present DaemonSet. */
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

/** Asks the API server, since the reflected pods may be older than the DaemonSets. */
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
