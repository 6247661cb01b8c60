import { listed } from '@hearth/common';
import { type EventRecorder, type KubernetesClient, kinds } from '@hearth/common/kubernetes';
import { clusterLabel, forceDeletionAnnotation, type StorageCluster } from '@hearth/common/resources';
import {
  all,
  componentLabel,
  deleteAll,
  type MountingPods,
  namedPods,
  ownedSelector,
  type Source,
} from '../kubernetes/index.ts';
import type { CleanUpResult } from '../reconciler/index.ts';
import type { Component } from './names.ts';
import { ownedTypes } from './owned_objects.ts';
import type { PodState } from './pod_state.ts';

export interface CleanUpOptions {
  api: Pick<KubernetesClient, 'list' | 'delete'>;
  events: Pick<EventRecorder, 'eventFor'>;
  namespace: string;
  now: () => number;
  timeoutMs: number;
  /** Start of each removal, milliseconds since the epoch, by uid. Kept between calls. */
  began: Map<string, number>;
}

/** The pause between two checks for pods, ms. */
const recheckMs = 10_000;

/**
 * Blocks the deletion while pods mount volumes of the StorageCluster, whose reads would fail for good. Undefined when
 * no pod does, or when the annotation forces the deletion. A volume without a cluster belongs to the cluster of the
 * pod's node.
 */
export function keptByPods(
  own: Pick<Source<PodState>, 'all'>,
  mounting: Pick<MountingPods, 'on'>,
  { metadata }: StorageCluster,
): CleanUpResult | undefined {
  const { name } = metadata;
  if (metadata.annotations?.[forceDeletionAnnotation] === 'true') return undefined;
  const nodes = new Set(own.all().flatMap(({ cluster, node }) => (cluster === name ? [node] : [])));
  const pods = mounting.on(nodes, (of) => of === '' || of === name);
  if (pods.length === 0) return undefined;
  const waitingFor = `Not deleted yet, because pods mount its volumes: ${namedPods(pods)}; delete these pods, and the StorageCluster goes. To delete it now, with errors for all that these pods read: kubectl annotate storagecluster ${name} ${forceDeletionAnnotation}=true`;
  return { waitingFor, reason: 'InUse', requeueAfterMs: recheckMs };
}

/**
 * Removes everything made for a StorageCluster and waits for its end, pods included: first agents; then holders, which
 * detach the remaining mounts, and last the store and certificates, which ending agents need. After the timeout returns
 * 'done' with an event that names the rest.
 */
export async function cleanUp(
  options: CleanUpOptions,
  cluster: StorageCluster,
  signal: AbortSignal,
): Promise<CleanUpResult> {
  const { events, now, timeoutMs, began } = options;
  const { name, uid = '' } = cluster.metadata;
  const since = began.get(uid) ?? now();
  began.set(uid, since);
  const hasTime = now() - since <= timeoutMs;
  const left: string[] = [];
  const steps = [
    () => removeAgents(options, name, signal),
    () => removeFromNodes(options, name, 'holder', signal),
    () => removeRest(options, name, signal),
  ];
  for (const removeNext of steps) {
    left.push(...(await removeNext()));
    if (left.length > 0 && hasTime) break;
  }
  if (left.length === 0) return 'done';
  const named = listed(left, { most: 10 });
  if (hasTime) return { waitingFor: `Waits until these objects are gone: ${named}`, requeueAfterMs: 1_000 };
  const message = `After ${Math.round(timeoutMs / 60_000)} minutes the operator leaves these objects to the garbage collector: ${named}`;
  events.eventFor(kinds.StorageCluster, cluster, 'Warning', 'DeletionIncomplete', message);
  return 'done';
}

async function removeAgents(options: CleanUpOptions, cluster: string, signal: AbortSignal): Promise<string[]> {
  const { api } = options;
  const left = await removeFromNodes(options, cluster, 'agent', signal);
  const caches = await api.list(kinds.NodeCache, {}, signal);
  for (const cache of caches.items.filter(({ spec }) => spec.clusterRef.name === cluster)) {
    await api.delete(kinds.NodeCache, cache.metadata.name, undefined, { signal });
  }
  return left;
}

async function removeFromNodes(
  options: CleanUpOptions,
  cluster: string,
  component: Component,
  signal: AbortSignal,
): Promise<string[]> {
  const selector = `${ofCluster(cluster)},${componentLabel}=${component}`;
  const { api, namespace } = options;
  const place = { namespace, labelSelector: selector };
  const sets = await deleteAll(api, kinds.DaemonSet, place, signal);
  // The garbage collector removes pods after their owners.
  return [...sets, ...(await pods(options, selector, signal))];
}

async function removeRest(options: CleanUpOptions, cluster: string, signal: AbortSignal): Promise<string[]> {
  const labelSelector = ofCluster(cluster);
  const left: string[] = [];
  for (const type of ownedTypes.filter(({ kind }) => kind !== 'DaemonSet')) {
    left.push(...(await deleteAll(options.api, type, { namespace: options.namespace, labelSelector }, signal)));
  }
  left.push(...(await pods(options, `${labelSelector},${componentLabel}=etcd`, signal)));
  return left;
}

async function pods({ api, namespace }: CleanUpOptions, labelSelector: string, signal: AbortSignal): Promise<string[]> {
  const found = await all(api, kinds.Pod, { namespace, labelSelector }, signal);
  return found.map(({ metadata }) => `Pod ${metadata?.name}`);
}

const ofCluster = (cluster: string): string => `${ownedSelector},${clusterLabel}=${cluster}`;
