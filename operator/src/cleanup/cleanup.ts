import { HearthError, type Logger } from '@hearth/common';
import {
  type Clock,
  type KubernetesClient,
  type KubernetesObject,
  kinds,
  objectKey,
  type PersistentVolume,
  type ResourceType,
  systemClock,
} from '@hearth/common/kubernetes';
import { driverName } from '@hearth/common/resources';
import { isGated, releasePod } from '../gates/index.ts';
import {
  all,
  claimedVolume,
  deleteAll,
  MountingPods,
  namedPods,
  ownedSelector,
  pages,
  podMounts,
} from '../kubernetes/index.ts';
import { withoutStartupTaint } from '../nodes/index.ts';
import { hasFinalizer, removeFinalizer } from '../reconciler/index.ts';
import { ownedTypes } from '../storage_cluster/index.ts';
import { withoutTopologyLabels } from '../topology/index.ts';
import { pauseMs, removeFromNodes, until } from './node_pods.ts';

export interface CleanupOptions {
  api: Pick<KubernetesClient, 'get' | 'list' | 'delete' | 'patch'>;
  namespace: string;
  logger: Logger;
  /** Proceed while pods mount volumes, which then cannot end until the driver is back. */
  force: boolean;
  timeoutMs: number;
  deadlineMs: number;
  signal: AbortSignal;
  clock?: Clock;
}

/** Longer than the termination grace of the operator's pods. */
const stopMs = 45_000;
const startMs = 5_000;
const operatorName = 'hearth-operator';

/**
 * Runs before the chart is uninstalled. Refuses (`InUse`) while pods mount volumes, unless forced. A pod may start at any
 * moment, so the order matters:
 *   1. check for mounts, without changes;  2. stop the operator;  3. remove agents: no pod can mount without one, while
 *      holders keep present mounts and their readers wait;  4. check again;  5. remove StorageClusters, holders,
 *      finalizers, startup taints, gates of pods and all other objects of the operator.
 * Datasets, CachePreloads, claims and volumes stay, without our finalizer. After a failure starts the operator again,
 * which restores the objects of remaining StorageClusters. `DeadlineExceeded` names objects that remain.
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
    // Also detaches mounts that agents left.
    await removeFromNodes(options, 'holder', Math.min(timeoutMs, deadline - clock.now()));
    await removeRest(options, deadline);
  } catch (thrown) {
    await startAgain();
    throw thrown;
  }
}

/** First, so that a restarted operator does not recreate the objects deleted next. */
async function deleteClusters({ api, logger, signal }: CleanupOptions): Promise<void> {
  for (const cluster of await all(api, kinds.StorageCluster, {}, signal)) {
    await api.delete(kinds.StorageCluster, cluster.metadata.name, undefined, { signal });
    logger.info('deleting a StorageCluster', { cluster: cluster.metadata.name });
  }
}

async function removeRest(options: CleanupOptions, deadline: number): Promise<void> {
  const { api, namespace, deadlineMs, signal, clock = systemClock } = options;
  await openGates(options);
  await api.delete(kinds.Lease, operatorName, namespace, { signal });

  let left: string[] = [];
  const gone = await until(options, Math.max(pauseMs, deadline - clock.now()), async () => {
    left = [];
    for await (const { name, remove } of leftovers(options)) {
      await remove.catch((thrown) => {
        const { code } = HearthError.from(thrown);
        // Somebody, such as a kubelet, has changed the object since it was read; the next pass reads it again.
        if (code === 'Conflict') left.push(name);
        else if (code !== 'NotFound') throw thrown;
      });
    }
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

/** The operator would restore finalizers. Returns the function that starts it again. */
async function stopOperator(options: CleanupOptions): Promise<() => Promise<void>> {
  const { api, namespace, logger, signal } = options;
  const deployment = await api.get(kinds.Deployment, operatorName, namespace, signal);
  if (deployment === undefined) return async () => {};
  // 0 after a killed Job that did not start the operator again.
  const before = Math.max(1, deployment.spec?.replicas ?? 1);
  const scale = async (replicas: number, by: AbortSignal) => {
    const patch = { spec: { replicas } };
    await api.patch(kinds.Deployment, operatorName, namespace, patch, { kind: 'merge', signal: by });
  };
  await scale(0, signal);
  const pods = { namespace, labelSelector: 'app.kubernetes.io/name=hearth,app.kubernetes.io/component=operator' };
  const startAgain = async () => {
    // Not the Job's signal, whose deadline may be the reason.
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

/** Finalizers, startup taints and topology labels, which no operator maintains any longer. */
async function* leftovers({ api, signal }: CleanupOptions): AsyncGenerator<{ name: string; remove: Promise<unknown> }> {
  const types = [kinds.StorageCluster, kinds.NodeCache, kinds.Dataset, kinds.CachePreload, kinds.PersistentVolume];
  for (const type of types as ResourceType<KubernetesObject & Pick<PersistentVolume, 'spec'>>[]) {
    for (const object of await all(api, type, {}, signal)) {
      const foreign = type.kind === kinds.PersistentVolume.kind && object.spec?.csi?.driver !== driverName;
      if (foreign || !hasFinalizer(object)) continue;
      yield { name: `${type.kind} ${objectKey(object)}`, remove: removeFinalizer(api, type, object, signal) };
    }
  }
  for (const node of await all(api, kinds.Node, {}, signal)) {
    const { name = '', labels } = node.metadata ?? {};
    // The taint first: its patch is for the version that was read.
    for (const patch of [withoutStartupTaint(node), withoutTopologyLabels(labels)]) {
      if (patch === undefined) continue;
      yield { name: `Node ${name}`, remove: api.patch(kinds.Node, name, undefined, patch, { kind: 'merge', signal }) };
    }
  }
}

/** Pods with a gate are Pending. They start cold. */
async function openGates({ api, signal, logger }: CleanupOptions): Promise<void> {
  for (const pod of await all(api, kinds.Pod, { fieldSelector: 'status.phase=Pending' }, signal)) {
    if (!isGated(pod)) continue;
    await releasePod({ api, logger }, pod, undefined, signal);
    const { namespace, name } = pod.metadata ?? {};
    logger.info('removed the scheduling gate of a pod', { namespace, name });
  }
}

/** Without csi-node the kubelet cannot unmount, so deleted pods would stay Terminating or leave their mounts behind. */
async function refuseWhileMounted(api: Pick<KubernetesClient, 'list'>, signal: AbortSignal): Promise<void> {
  const index = new MountingPods();
  for await (const volumes of pages(api, kinds.PersistentVolume, {}, signal)) {
    for (const one of volumes) index.volumeChanged(one.metadata?.name ?? '', undefined, claimedVolume(one));
  }
  for await (const pods of pages(api, kinds.Pod, {}, signal)) {
    for (const one of pods) index.podChanged(objectKey(one), undefined, podMounts(one));
  }
  const mounting = index.on();
  if (mounting.length === 0) return;
  throw new HearthError(
    'InUse',
    `refusing to uninstall, because pods mount volumes of Hearth: ${namedPods(mounting)}; ` +
      'delete them and uninstall again. Without csi-node nothing unmounts for them when they are deleted; docs/install.md ' +
      'says how to uninstall all the same (cleanup.force)',
  );
}
