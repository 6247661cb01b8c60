import { ignoring, type Logger } from '@hearth/common';
import {
  type EventRecorder,
  hasNewSpec,
  type KubernetesClient,
  kinds,
  runController,
  watch,
} from '@hearth/common/kubernetes';
import { agentsLabel } from '@hearth/common/names';
import type { StorageCluster } from '@hearth/common/resources';
import { mountingPods, type NodeFacts, namedPods, type Place, type Source, staleAgents } from '../kubernetes/index.ts';
import { type ControllerParts, type Reconciler, reconcileKey } from '../reconciler/index.ts';
import { type LabelChanges, labelChanges } from './node_labels.ts';

export interface NodeLabelsOptions {
  api: Pick<KubernetesClient, 'patch' | 'list'>;
  clusters: Pick<Source<StorageCluster>, 'get'>;
  events: Pick<EventRecorder, 'eventFor'>;
  logger: Logger;
}

export interface ObservedNode {
  place: Place | undefined;
  /** Agents on the node that do not belong there any more, while their StorageCluster is there. */
  stale: readonly Place[];
  /** `NAMESPACE/NAME on NODE` of pods that read by these agents. */
  pods: readonly string[];
}

export type NodeLabelsAction =
  | { kind: 'label'; labels: LabelChanges }
  | { kind: 'report'; cluster: StorageCluster; message: string };

/** How often pods are looked for that keep an agent on its node, ms. */
const lookAgainMs = 10_000;

/**
 * Labels the nodes of each StorageCluster: where volumes can be used, and where agents run. A node that leaves its node group
 * takes no new volume at once; its agent and holder stay as long as pods mount volumes there, whose reads would fail for good.
 */
export class NodeLabelsReconciler implements Reconciler<NodeFacts, ObservedNode, NodeLabelsAction> {
  readonly #options: NodeLabelsOptions;
  readonly #placeOf: (node: string) => Place | undefined;
  /** The last reports, by node. */
  readonly #reported = new Map<string, string>();

  constructor(options: NodeLabelsOptions, placeOf: (node: string) => Place | undefined) {
    this.#options = options;
    this.#placeOf = placeOf;
  }

  async observe({ name, labels }: NodeFacts, signal: AbortSignal): Promise<ObservedNode> {
    const { api, clusters } = this.#options;
    const place = this.#placeOf(name);
    const stale = staleAgents(labels, place).filter(({ cluster }) => clusters.get(cluster) !== undefined);
    if (stale.length === 0) return { place, stale, pods: [] };
    const isOfStale = (cluster: string | undefined) =>
      cluster === undefined || stale.some((one) => one.cluster === cluster);
    return { place, stale, pods: (await mountingPods(api, signal, isOfStale, name)).sort() };
  }

  plan({ name, labels }: NodeFacts, { place, stale, pods }: ObservedNode): NodeLabelsAction[] {
    const actions: NodeLabelsAction[] = [];
    const changes = labelChanges(labels, place, pods.length > 0);
    if (changes !== undefined) actions.push({ kind: 'label', labels: changes });
    const cluster = this.#options.clusters.get(stale[0]?.cluster ?? '');
    // Of one that is being deleted the condition Ready names the pods of all nodes.
    if (pods.length === 0 || cluster === undefined || cluster.metadata.deletionTimestamp !== undefined) return actions;
    const message = `Node ${name} has left node group ${stale[0]?.group}, but the agent stays there, because pods mount volumes: ${namedPods(pods)}; delete these pods, and the agent goes. To remove the agent now, with errors for all that these pods read: kubectl label node ${name} ${agentsLabel(cluster.metadata.name)}-`;
    if (this.#reported.get(name) !== message) actions.push({ kind: 'report', cluster, message });
    return actions;
  }

  requeueAfterMs({ name }: NodeFacts, { pods }: ObservedNode): number | undefined {
    if (pods.length > 0) return lookAgainMs;
    this.#reported.delete(name);
    return undefined;
  }

  async apply(action: NodeLabelsAction, { name }: NodeFacts, signal: AbortSignal): Promise<void> {
    const { api, events, logger } = this.#options;
    if (action.kind === 'report') {
      events.eventFor(kinds.StorageCluster, action.cluster, 'Warning', 'NodeInUse', action.message);
      this.#reported.set(name, action.message);
      return;
    }
    const { labels } = action;
    const patch = { metadata: { labels } };
    await api.patch(kinds.Node, name, undefined, patch, { kind: 'merge', signal }).catch(ignoring('NotFound'));
    logger.info('changed the labels of a node', { node: name, labels });
  }
}

/** Keeps the labels of nodes current until the signal aborts. */
export async function runNodeLabelsController(parts: ControllerParts, signal: AbortSignal): Promise<void> {
  const { clusters, nodes, placements, logger } = parts;
  const reconciler = new NodeLabelsReconciler(parts, (node) => placements.placeOf(node));
  await runController({
    name: 'node-labels',
    workers: 4,
    watches: [
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
