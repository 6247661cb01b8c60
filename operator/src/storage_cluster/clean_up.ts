import { listed } from '@hearth/common';
import { type EventRecorder, type KubernetesClient, kinds } from '@hearth/common/kubernetes';
import { clusterLabel, forceDeletionAnnotation, type StorageCluster } from '@hearth/common/resources';
import { all, componentLabel, deleteAll, mountingPods, namedPods, ownedSelector } from '../kubernetes/index.ts';
import type { CleanUpResult } from '../reconciler/index.ts';
import type { Component } from './names.ts';
import { ownedTypes } from './owned_objects.ts';

export interface CleanUpOptions {
  api: Pick<KubernetesClient, 'list' | 'delete'>;
  events: Pick<EventRecorder, 'eventFor'>;
  namespace: string;
  now: () => number;
  /** A removal ends after this time though something is left. */
  timeoutMs: number;
  /** When removals began, milliseconds since the epoch, by the uid of their StorageCluster. Kept between calls. */
  began: Map<string, number>;
}

/** How often pods are looked for that keep a StorageCluster, ms. */
const lookAgainMs = 10_000;

/**
 * Why the StorageCluster cannot go yet: pods mount its volumes, and their reads would fail for good. Undefined: nothing is
 * in the way, or a person has annotated it. A volume that names no StorageCluster is that of the one on the pod's node.
 */
export async function keptByPods(
  { api, namespace }: Pick<CleanUpOptions, 'api' | 'namespace'>,
  { metadata }: StorageCluster,
  signal: AbortSignal,
): Promise<CleanUpResult | undefined> {
  const { name } = metadata;
  if (metadata.annotations?.[forceDeletionAnnotation] === 'true') return undefined;
  const own = await all(api, kinds.Pod, { namespace, labelSelector: ofCluster(name) }, signal);
  const nodes = new Set(own.flatMap(({ spec }) => spec?.nodeName ?? []));
  const isOfCluster = (cluster: string | undefined, node: string) => nodes.has(node) && (cluster ?? name) === name;
  const pods = nodes.size === 0 ? [] : await mountingPods(api, signal, isOfCluster);
  if (pods.length === 0) return undefined;
  const waitingFor = `Not deleted yet, because pods mount its volumes: ${namedPods(pods.sort())}; delete these pods, and the StorageCluster goes. To delete it now, with errors for all that these pods read: kubectl annotate storagecluster ${name} ${forceDeletionAnnotation}=true`;
  return { waitingFor, reason: 'InUse', requeueAfterMs: lookAgainMs };
}

/**
 * Removes everything that was made for a StorageCluster and waits until it has gone, pods included. Agents go first;
 * after them the holders, which detach every mount that agents have left on a node, and the store and certificates, as
 * agents take leave of it. Ends in any case when the timeout is over, with an event that names what is left.
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
  const patient = now() - since <= timeoutMs;
  const left: string[] = [];
  const steps = [
    () => removeAgents(options, name, signal),
    () => removeFromNodes(options, name, 'holder', signal),
    () => removeRest(options, name, signal),
  ];
  for (const removeNext of steps) {
    left.push(...(await removeNext()));
    if (left.length > 0 && patient) break;
  }
  if (left.length === 0) return 'done';
  const named = listed(left, { most: 10 });
  if (patient) return { waitingFor: `Waits until these objects are gone: ${named}`, requeueAfterMs: 1_000 };
  const message = `After ${Math.round(timeoutMs / 60_000)} minutes the operator leaves these objects to the garbage collector: ${named}`;
  events.eventFor(kinds.StorageCluster, cluster, 'Warning', 'DeletionIncomplete', message);
  return 'done';
}

/** Agents, and what reports them. Gives what is still there. */
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
  // The garbage collector removes pods after what made them.
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
