import { HearthError, ignoring, type Logger } from '@hearth/common';
import {
  type Clock,
  type KubernetesClient,
  type KubernetesObject,
  kinds,
  type ResourceType,
  systemClock,
} from '@hearth/common/kubernetes';
import { driverName } from '@hearth/common/resources';
import { isGated, releasePod } from '../gates/index.ts';
import { all, deleteAll, ownedSelector } from '../kubernetes/index.ts';
import { withoutStartupTaint } from '../nodes/index.ts';
import { hasFinalizer, removeFinalizer } from '../reconciler/index.ts';
import { ownedTypes } from '../storage_cluster/index.ts';
import { withoutTopologyLabels } from '../topology/index.ts';
import { refuseWhileMounted } from './mounting_pods.ts';
import { removeFromNodes } from './node_pods.ts';
import { pauseMs, until } from './wait.ts';

export interface CleanupOptions {
  api: Pick<KubernetesClient, 'get' | 'list' | 'delete' | 'patch'>;
  namespace: string;
  logger: Logger;
  /** Also while pods mount volumes of ours, which then cannot end until the driver is there again. */
  force: boolean;
  /** How long agents are given to end, and then holders. */
  timeoutMs: number;
  /** How long everything may take. */
  deadlineMs: number;
  signal: AbortSignal;
  clock?: Clock;
}

/** Longer than the operator's pods are given to end. */
const stopMs = 45_000;
const startMs = 5_000;
const operatorName = 'hearth-operator';

/**
 * Before the operator is uninstalled. While pods mount volumes of ours it refuses (`InUse`), unless forced. A pod may
 * begin at any moment, so nothing that a mount needs goes while a pod can still mount:
 *   1. the first look, which changes nothing,  2. the operator stops,  3. agents go: without one nothing is published,
 *      while holders keep what is mounted and its readers wait,  4. the last look,  5. StorageClusters, holders and all
 *      the rest go, our finalizers, startup taints and gates of pods.
 * Objects of users stay: Datasets, CachePreloads, claims and volumes, without a finalizer that no controller would
 * honour any more. After a failure cleanup starts the operator again, since the release stays; the operator makes again
 * everything that the remaining StorageClusters want, and agents take the mounts over. `DeadlineExceeded` names the
 * objects that would not go.
 */
export async function cleanup(options: CleanupOptions): Promise<void> {
  const { api, force, timeoutMs, deadlineMs, signal, clock = systemClock } = options;
  const deadline = clock.now() + deadlineMs;
  if (!force) await refuseWhileMounted(api, signal);
  const startAgain = await stopOperator(options);
  try {
    await removeFromNodes(options, 'agent', timeoutMs);
    if (!force) await refuseWhileMounted(api, signal);
    await deleteClusters(options);
    // Removes the mounts that agents left, too.
    await removeFromNodes(options, 'holder', Math.min(timeoutMs, deadline - clock.now()));
    await removeRest(options, deadline);
  } catch (thrown) {
    await startAgain();
    throw thrown;
  }
}

/** First, so that whoever starts the operator again does not have it make again what goes next. */
async function deleteClusters({ api, logger, signal }: CleanupOptions): Promise<void> {
  for (const cluster of await all(api, kinds.StorageCluster, {}, signal)) {
    await api.delete(kinds.StorageCluster, cluster.metadata.name, undefined, { signal });
    logger.info('deleting a StorageCluster', { cluster: cluster.metadata.name });
  }
}

async function removeRest(options: CleanupOptions, deadline: number): Promise<void> {
  const { api, namespace, deadlineMs, signal, clock = systemClock } = options;
  await openGates(options);
  const withFinalizers = [kinds.StorageCluster, kinds.NodeCache, kinds.Dataset, kinds.CachePreload] as ResourceType[];
  for (const type of withFinalizers) {
    for (const object of await all(api, type, {}, signal)) await dropFinalizer(api, type, object, signal);
  }
  for (const volume of await all(api, kinds.PersistentVolume, {}, signal)) {
    if (volume.spec?.csi?.driver === driverName) await dropFinalizer(api, kinds.PersistentVolume, volume, signal);
  }
  await cleanNodes(options);
  await api.delete(kinds.Lease, operatorName, namespace, { signal });

  let left: string[] = [];
  const gone = await until(options, Math.max(pauseMs, deadline - clock.now()), async () => {
    left = [];
    for (const type of ownedTypes)
      left.push(...(await deleteAll(api, type, { namespace, labelSelector: ownedSelector }, signal)));
    left.push(...(await deleteAll(api, kinds.NodeCache, {}, signal)));
    return left.length === 0;
  });
  if (gone) return;
  const named = left.slice(0, 10).join(', ');
  throw new HearthError(
    'DeadlineExceeded',
    `after ${Math.round(deadlineMs / 1000)} s these objects still exist: ${named}; look at their finalizers and uninstall again`,
  );
}

/** It would put finalizers back that are removed next. Gives what starts it again. */
async function stopOperator(options: CleanupOptions): Promise<() => Promise<void>> {
  const { api, namespace, logger, signal } = options;
  const deployment = await api.get(kinds.Deployment, operatorName, namespace, signal);
  if (deployment === undefined) return async () => {};
  // None: stopped by a Job that was killed before it could start it again.
  const before = Math.max(1, deployment.spec?.replicas ?? 1);
  const scale = async (replicas: number, by: AbortSignal) => {
    const patch = { spec: { replicas } };
    await api.patch(kinds.Deployment, operatorName, namespace, patch, { kind: 'merge', signal: by });
  };
  await scale(0, signal);
  const pods = { namespace, labelSelector: 'app.kubernetes.io/name=hearth,app.kubernetes.io/component=operator' };
  const startAgain = async () => {
    // Also when the Job is over its time, which is what ends the signal.
    await scale(before, systemClock.timeout(startMs)).then(
      () => logger.info('scaled the operator up again', { replicas: before }),
      (error) => logger.error(`failed to scale the operator up again: scale it to ${before} by hand`, { error }),
    );
  };
  try {
    const ended = await until(options, stopMs, async () => (await all(api, kinds.Pod, pods, signal)).length === 0);
    if (!ended)
      logger.warn('pods of the operator are still running; if they add finalizers again, remove these by hand');
  } catch (thrown) {
    await startAgain();
    throw thrown;
  }
  return startAgain;
}

async function dropFinalizer<T extends KubernetesObject>(
  api: CleanupOptions['api'],
  type: ResourceType<T>,
  object: T,
  signal: AbortSignal,
): Promise<void> {
  if (hasFinalizer(object)) await removeFinalizer(api, type, object, signal).catch(ignoring('NotFound'));
}

/**
 * No operator is left that would remove startup taints, or keep the labels current by which the scheduler finds nodes for
 * volumes.
 */
async function cleanNodes({ api, signal, logger }: CleanupOptions): Promise<void> {
  for (const node of await all(api, kinds.Node, {}, signal)) {
    const { name = '', labels } = node.metadata ?? {};
    const untainted = withoutStartupTaint(node);
    for (const patch of [untainted, withoutTopologyLabels(labels)]) {
      if (patch === undefined) continue;
      await api.patch(kinds.Node, name, undefined, patch, { kind: 'merge', signal }).catch(ignoring('NotFound'));
    }
    if (untainted !== undefined) logger.info('removed a startup taint', { node: name });
  }
}

/** No operator is left that would open the gates: the pods run cold. Those with a gate have no node, so they are Pending. */
async function openGates({ api, signal, logger }: CleanupOptions): Promise<void> {
  for (const pod of await all(api, kinds.Pod, { fieldSelector: 'status.phase=Pending' }, signal)) {
    if (!isGated(pod)) continue;
    await releasePod({ api, logger }, pod, undefined, signal);
    logger.info('removed the scheduling gate of a pod', {
      namespace: pod.metadata?.namespace,
      name: pod.metadata?.name,
    });
  }
}
