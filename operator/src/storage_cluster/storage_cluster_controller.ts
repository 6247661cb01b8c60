import { type Logger, systemClock } from '@hearth/common';
import {
  hasNewSpec,
  type KubernetesClient,
  type KubernetesObject,
  runController,
  WorkQueue,
  watch,
} from '@hearth/common/kubernetes';
import type { ClusterStatus } from '../agents/index.ts';
import type { NodeFacts, Source } from '../kubernetes/index.ts';
import { reconcileObject } from '../reconciler/index.ts';
import { clusterOf, OwnedObjects, type OwnedSources } from './owned_objects.ts';
import { StorageClusterReconciler, type StorageClusterReconcilerOptions } from './storage_cluster_reconciler.ts';

export interface StorageClusterControllerOptions
  extends Omit<StorageClusterReconcilerOptions, 'owned' | 'now' | 'deletionTimeoutMs'> {
  api: Pick<KubernetesClient, 'get' | 'list' | 'apply' | 'patch' | 'delete'>;
  owned: OwnedSources;
  logger: Logger;
  now?: () => Date;
  deletionTimeoutMs?: number | undefined;
}

/** The least time between two passes for changing figures, ms. */
const figuresMs = 10_000;
/** Pods of many nodes change together: one pass handles all, ms. */
const gatherMs = 200;

/** Runs on the leader only, until the signal aborts. The reflectors must run already. */
export async function runStorageClusterController(
  options: StorageClusterControllerOptions,
  signal: AbortSignal,
): Promise<void> {
  const { clusters, nodes, pods, agents, api, events, logger, environment } = options;
  const { now = () => systemClock.date(), deletionTimeoutMs = 10 * 60_000 } = options;
  const owned = new OwnedObjects(options.owned, environment.namespace);
  const reconciler = new StorageClusterReconciler({ ...options, owned, now, deletionTimeoutMs });
  const known = (name: string) => (clusters.get(name) === undefined ? [] : [name]);
  const watches = [
    watch(clusters, (name, _before, after) => (after === undefined ? [] : [name])),
    // The placement of nodes depends on all StorageClusters.
    watch(clusters, (_name, before, after) => (hasNewSpec(before, after) ? clusters.keys() : []), gatherMs),
    watch(
      nodes,
      (_name, before, after) => (placementOf(before) === placementOf(after) ? [] : clusters.keys()),
      gatherMs,
    ),
    watch(pods, (_key, ...states) => states.flatMap((pod) => pod?.cluster || []), gatherMs),
    ...Object.values<Source<KubernetesObject>>({ ...options.owned }).map((source) =>
      watch(source, (_key, ...objects) => objects.flatMap((object) => (object && clusterOf(object)) ?? []), gatherMs),
    ),
    watch(agents, (name, before, after) => (readinessOf(before) === readinessOf(after) ? [] : known(name)), gatherMs),
    watch(agents, known, figuresMs),
  ];
  await runController({
    name: 'storageclusters',
    queue: new WorkQueue({ firstDelayMs: 200, longestDelayMs: 60_000 }),
    workers: 2,
    watches,
    first: () => clusters.keys(),
    reconcile: reconcileObject({ reconciler, api, objects: clusters, events, logger, now }),
    logger,
    signal,
  });
}

/** The fields of a node that matter to StorageClusters. */
function placementOf(node: NodeFacts | undefined): string {
  return JSON.stringify([node?.labels, node?.taints, node?.ready]);
}

function readinessOf(status: ClusterStatus | undefined): string {
  const nodes = [...(status?.nodes.values() ?? [])].map(({ node, ready, reason }) => [node, ready, reason]);
  return JSON.stringify([status?.connected, nodes]);
}
