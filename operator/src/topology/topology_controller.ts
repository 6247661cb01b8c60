import type { Logger } from '@hearth/common';
import {
  type ConfigMap,
  type EventRecorder,
  hasNewSpec,
  type KubernetesClient,
  runController,
  watch,
} from '@hearth/common/kubernetes';
import { nodeGroupsConfigMap } from '@hearth/common/names';
import type { StorageCluster } from '@hearth/common/resources';
import { type NodeFacts, Placements, type Source } from '../kubernetes/index.ts';
import { reconcileKey } from '../reconciler/index.ts';
import { NodeGroupsReconciler } from './node_groups.ts';
import { NodeLabelsReconciler } from './node_labels_reconciler.ts';

export interface TopologyControllerOptions {
  api: Pick<KubernetesClient, 'apply' | 'patch' | 'list'>;
  events: Pick<EventRecorder, 'eventFor'>;
  namespace: string;
  clusters: Source<StorageCluster>;
  /** Projected by `nodeFacts`. */
  nodes: Source<NodeFacts>;
  /** Of the operator's namespace, with what the operator made. */
  configMaps: Source<ConfigMap>;
  logger: Logger;
}

/** Keeps labels of nodes and the ConfigMap current, on the leader only, until the signal aborts. The reflectors run already. */
export async function runTopologyController(options: TopologyControllerOptions, signal: AbortSignal): Promise<void> {
  await Promise.all([runNodeLabels(options, signal), runNodeGroups(options, signal)]);
}

async function runNodeLabels(options: TopologyControllerOptions, signal: AbortSignal): Promise<void> {
  const { clusters, nodes, logger } = options;
  const placements = new Placements(clusters, nodes);
  const reconciler = new NodeLabelsReconciler(options, (node) => placements.placeOf(node));
  await runController({
    name: 'node-labels',
    workers: 4,
    watches: [
      placements,
      watch(nodes, (name, before, after) => (placementOf(before) === placementOf(after) ? [] : [name])),
      watch(clusters, (_name, before, after) => (hasNewSpec(before, after) ? nodes.keys() : [])),
    ],
    first: () => nodes.keys(),
    reconcile: reconcileKey(reconciler, (name) => nodes.get(name)),
    logger,
    signal,
  });
}

/** The part of a node that decides where it belongs, and its labels. */
function placementOf(node: NodeFacts | undefined): string {
  return JSON.stringify([node?.labels, node?.taints]);
}

async function runNodeGroups(options: TopologyControllerOptions, signal: AbortSignal): Promise<void> {
  const { clusters, configMaps, namespace, logger } = options;
  const configMap = `${namespace}/${nodeGroupsConfigMap}`;
  await runController({
    name: 'node-groups',
    workers: 1,
    watches: [
      watch(clusters, (_name, before, after) => (hasNewSpec(before, after) ? [nodeGroupsConfigMap] : [])),
      watch(configMaps, (key) => (key === configMap ? [nodeGroupsConfigMap] : [])),
    ],
    first: () => [nodeGroupsConfigMap],
    reconcile: reconcileKey(new NodeGroupsReconciler(options), (key) => key),
    logger,
    signal,
  });
}
