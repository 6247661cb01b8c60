import type { Logger } from '@hearth/common';
import { type EventRecorder, type KubernetesClient, runController, WorkQueue } from '@hearth/common/kubernetes';
import type { StorageCluster } from '@hearth/common/resources';
import type { AgentDirectory, ClusterStatus } from '../agents/index.ts';
import type { NodeFacts, Source } from '../kubernetes/index.ts';
import { reconcileObject } from '../reconciler/index.ts';
import type { Environment } from './environment.ts';
import { OwnedObjects, type OwnedSources } from './owned_objects.ts';
import type { PodState } from './pod_state.ts';
import { StorageClusterReconciler } from './storage_cluster_reconciler.ts';

export interface StorageClusterControllerOptions {
  api: Pick<KubernetesClient, 'get' | 'list' | 'apply' | 'patch' | 'delete'>;
  environment: Environment;
  agents: AgentDirectory;
  clusters: Source<StorageCluster>;
  /** Projected by `nodeFacts`. */
  nodes: Source<NodeFacts>;
  /** Of the operator's namespace and `ownedSelector`, projected by `podState`. */
  pods: Source<PodState>;
  /** Of the operator's namespace and `ownedSelector`. */
  owned: OwnedSources;
  events: Pick<EventRecorder, 'eventFor'>;
  logger: Logger;
  now?: () => Date;
  deletionPatienceMs?: number;
}

/** Figures that change all the time are written as often as this at most. */
const figuresMs = 10_000;
/** Pods of many nodes change together: one pass looks at all of them. */
const gatherMs = 200;

/** Runs the reconciler of StorageClusters, on the leader only, until the signal aborts. The reflectors run already. */
export async function runStorageClusterController(
  options: StorageClusterControllerOptions,
  signal: AbortSignal,
): Promise<void> {
  const { clusters, nodes, pods, agents, api, events, logger, environment } = options;
  const { now = () => new Date(), deletionPatienceMs = 10 * 60_000 } = options;
  const queue = new WorkQueue({ firstDelayMs: 200, longestDelayMs: 60_000 });
  const owned = new OwnedObjects(options.owned, environment.namespace);
  const addAll = () => {
    // Which nodes belong to one depends on all of them.
    for (const name of clusters.keys()) queue.addAfter(name, gatherMs);
  };
  const stops = [
    clusters.onChange((name, before, after) => {
      if (after === undefined) void agents.forget(name);
      else queue.add(name);
      if (before?.metadata.generation !== after?.metadata.generation) addAll();
    }),
    nodes.onChange((_name, before, after) => {
      if (placementOf(before) !== placementOf(after)) addAll();
    }),
    pods.onChange((_key, before, after) => {
      for (const name of new Set([before?.cluster, after?.cluster])) {
        if (name !== undefined && name !== '') queue.addAfter(name, gatherMs);
      }
    }),
    owned.onChange((name) => queue.addAfter(name, gatherMs)),
    agents.onStatus((name, before, after) => {
      if (clusters.get(name) === undefined) return;
      if (readinessOf(before) === readinessOf(after)) queue.addAfter(name, figuresMs);
      else queue.addAfter(name, gatherMs);
    }),
  ];
  try {
    await Promise.all([clusters.synced(), nodes.synced(), pods.synced(), owned.synced()]);
    addAll();
    const reconciler = new StorageClusterReconciler({
      api,
      environment,
      agents,
      clusters,
      nodes,
      pods,
      owned,
      events,
      now,
      deletionPatienceMs,
    });
    const reconcile = reconcileObject({ reconciler, api, objects: clusters, events, logger, now });
    await runController({ name: 'storageclusters', queue, workers: 2, reconcile, logger, signal });
  } finally {
    for (const stop of stops) stop();
  }
}

/** What of a node decides where it belongs and how it is. */
function placementOf(node: NodeFacts | undefined): string {
  return JSON.stringify([node?.labels, node?.ready]);
}

function readinessOf(status: ClusterStatus | undefined): string {
  const nodes = [...(status?.nodes.values() ?? [])].map(({ node, ready, reason }) => [node, ready, reason]);
  return JSON.stringify([status?.connected, nodes]);
}
