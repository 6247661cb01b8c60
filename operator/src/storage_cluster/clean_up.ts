import { type EventRecorder, type KubernetesClient, kinds, type ResourceType } from '@hearth/common/kubernetes';
import { clusterLabel, type StorageCluster } from '@hearth/common/resources';
import type { CleanUpResult } from '../reconciler/index.ts';
import { ownedSelector } from './names.ts';
import { ownedTypes } from './owned_objects.ts';

export interface CleanUpOptions {
  api: Pick<KubernetesClient, 'list' | 'delete'>;
  events: Pick<EventRecorder, 'eventFor'>;
  namespace: string;
  now: () => number;
  /** A deletion ends after this time though something is left. */
  patienceMs: number;
}

/**
 * Takes away everything that was made for a StorageCluster and waits until it has gone, pods included: mounts end with
 * them. Ends in any case when the patience is over, with an event that names what is left.
 */
export async function cleanUp(
  { api, events, namespace, now, patienceMs }: CleanUpOptions,
  cluster: StorageCluster,
  signal: AbortSignal,
): Promise<CleanUpResult> {
  const { name, deletionTimestamp = '' } = cluster.metadata;
  const left: string[] = [];
  const labelSelector = `${ownedSelector},${clusterLabel}=${name}`;
  const takeAway = async (type: ResourceType, place: { namespace?: string; labelSelector?: string }) => {
    const { items } = await api.list(type, place, signal);
    for (const { metadata } of items) {
      const objectName = metadata?.name ?? '';
      left.push(`${type.kind} ${objectName}`);
      if (metadata?.deletionTimestamp === undefined) await api.delete(type, objectName, place.namespace, { signal });
    }
  };
  for (const type of ownedTypes) await takeAway(type, { namespace, labelSelector });
  const caches = await api.list(kinds.NodeCache, {}, signal);
  for (const cache of caches.items.filter(({ spec }) => spec.clusterRef.name === name)) {
    left.push(`NodeCache ${cache.metadata.name}`);
    await api.delete(kinds.NodeCache, cache.metadata.name, undefined, { signal });
  }
  // The garbage collector takes pods away after what made them.
  const pods = await api.list(kinds.Pod, { namespace, labelSelector }, signal);
  left.push(...pods.items.map(({ metadata }) => `Pod ${metadata?.name}`));

  if (left.length === 0) return 'done';
  const named = `${left.slice(0, 10).join(', ')}${left.length > 10 ? ` and ${left.length - 10} more` : ''}`;
  if (now() - Date.parse(deletionTimestamp) > patienceMs) {
    const message = `After ${Math.round(patienceMs / 60_000)} minutes these had not gone, and are left to the garbage collector: ${named}`;
    events.eventFor(kinds.StorageCluster, cluster, 'Warning', 'DeletionIncomplete', message);
    return 'done';
  }
  return { waitingFor: `Waits for these to go: ${named}`, requeueAfterMs: 1_000 };
}
