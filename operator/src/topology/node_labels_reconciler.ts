import { ignoring, type Logger } from '@hearth/common';
import {
  type EventRecorder,
  hasNewSpec,
  type KubernetesClient,
  kinds,
  runController,
  watch,
} from '@hearth/common/kubernetes';
import {
  agentsLabel,
  agentsLabelPrefix,
  agentTopologyKey,
  clusterTopologyKey,
  clusterTopologyPrefix,
  noAgents,
  topologyValue,
} from '@hearth/common/names';
import type { StorageCluster } from '@hearth/common/resources';
import {
  agentsOn,
  isAnchored,
  type MountingPods,
  type NodeFacts,
  namedPods,
  type Place,
  type Source,
  staleAgents,
} from '../kubernetes/index.ts';
import { KeptCopies } from '../nodes/index.ts';
import { type ControllerParts, type Reconciler, reconcileKey } from '../reconciler/index.ts';

export interface NodeLabelsOptions {
  api: Pick<KubernetesClient, 'patch'>;
  clusters: Pick<Source<StorageCluster>, 'get' | 'all'>;
  mounting: Pick<MountingPods, 'on'>;
  events: Pick<EventRecorder, 'eventFor'>;
  logger: Logger;
  placeOf: (node: string) => Place | undefined;
  /** True while copies that only this node has are on their way to others, or may have to be. */
  movesCopies: (node: string, cluster: string) => boolean;
}

export interface ObservedNode {
  place: Place | undefined;
  /** Former agents of existing StorageClusters on the node. */
  stale: readonly Place[];
  /** `NAMESPACE/NAME on NODE` of pods that read through these agents. */
  pods: readonly string[];
  movesCopies: boolean;
}

export type NodeLabelsAction =
  | { kind: 'label'; labels: LabelChanges }
  | { kind: 'report'; cluster: StorageCluster; message: string };

/** The pause between two checks for pods that keep an agent, ms. */
const recheckMs = 10_000;

/**
 * Labels the nodes that run agents and use volumes. A node that leaves its group takes no new volumes; its agent and
 * holder stay while pods mount volumes, whose reads would fail for good.
 */
export class NodeLabelsReconciler implements Reconciler<NodeFacts, ObservedNode, NodeLabelsAction> {
  readonly #options: NodeLabelsOptions;
  readonly #reported = new Map<string, string>();

  constructor(options: NodeLabelsOptions) {
    this.#options = options;
  }

  async observe({ name, labels }: NodeFacts): Promise<ObservedNode> {
    const { mounting, clusters, placeOf, movesCopies } = this.#options;
    const found = placeOf(name);
    // A node that drains takes no new volumes, like one that has left.
    const place = found?.draining ? undefined : found;
    const stale = staleAgents(labels, place).filter(({ cluster }) => clusters.get(cluster) !== undefined);
    if (stale.length === 0) return { place, stale, pods: [], movesCopies: false };
    const pods = mounting.on([name], (of) => of === '' || stale.some(({ cluster }) => cluster === of));
    return { place, stale, pods, movesCopies: found?.draining === true && movesCopies(name, found.cluster) };
  }

  plan({ name, labels }: NodeFacts, { place, stale, pods, movesCopies }: ObservedNode): NodeLabelsAction[] {
    const actions: NodeLabelsAction[] = [];
    const changes = labelChanges(labels, place, pods.length > 0 || movesCopies, this.#options.clusters.all());
    if (changes !== undefined) actions.push({ kind: 'label', labels: changes });
    const cluster = this.#options.clusters.get(stale[0]?.cluster ?? '');
    // During a deletion the condition Ready names these pods.
    if (pods.length === 0 || cluster === undefined || cluster.metadata.deletionTimestamp !== undefined) return actions;
    const message = `Node ${name} has left node group ${stale[0]?.group}, but the agent stays there, because pods mount volumes: ${namedPods(pods)}; delete these pods, and the agent goes. To remove the agent now, with errors for all that these pods read: kubectl label node ${name} ${agentsLabel(cluster.metadata.name)}-`;
    if (this.#reported.get(name) !== message) actions.push({ kind: 'report', cluster, message });
    return actions;
  }

  requeueAfterMs({ name }: NodeFacts, { pods, movesCopies }: ObservedNode): number | undefined {
    if (pods.length === 0) this.#reported.delete(name);
    return pods.length > 0 || movesCopies ? recheckMs : undefined;
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

export async function runNodeLabelsController(
  parts: ControllerParts & { mounting: MountingPods },
  signal: AbortSignal,
): Promise<void> {
  const { agents, clusters, datasets, nodes, placements, logger } = parts;
  const placeOf = (node: string) => placements.placeOf(node);
  const kept = new KeptCopies({ ...parts, placeOf });
  const movesCopies = (node: string, cluster: string) => {
    const status = agents.get(cluster)?.status;
    return status === undefined || kept.on(node, status).some(({ target }) => target !== undefined);
  };
  const reconciler = new NodeLabelsReconciler({ ...parts, placeOf, movesCopies });
  await runController({
    name: 'node-labels',
    workers: 4,
    watches: [
      watch(nodes, (name, before, after) => (placementOf(before) === placementOf(after) ? [] : [name])),
      watch(clusters, (_name, before, after) => (hasNewSpec(before, after) ? nodes.keys() : [])),
    ],
    reads: [datasets],
    first: () => nodes.keys(),
    reconcile: reconcileKey(reconciler, (name) => nodes.get(name)),
    logger,
    signal,
  });
}

/** The fields that decide on the labels. */
function placementOf(node: NodeFacts | undefined): string {
  return JSON.stringify([node?.labels, node?.taints]);
}

/** A merge patch of labels; null removes one. */
type LabelChanges = Record<string, string | null>;
type Labels = Readonly<Record<string, string>>;

/**
 * Pure. The changes by which the node runs agents of its node group and uses volumes of its StorageCluster alone;
 * undefined for none. `place` is undefined outside of all StorageClusters. `inUse`: pods mount volumes through the
 * agent of a former group, so that agent stays and no other starts. `clusters`: all of them. Those whose agents were
 * here, or come by themselves, get the label that keeps them out. The kubelet adds topology labels when csi-node
 * registers, and never removes them.
 */
export function labelChanges(
  labels: Labels,
  place: Place | undefined,
  inUse: boolean,
  clusters: readonly StorageCluster[],
): LabelChanges | undefined {
  const wanted: Record<string, string> = {};
  if (inUse) for (const { cluster, group } of agentsOn(labels)) wanted[agentsLabel(cluster)] = group;
  else if (place !== undefined) wanted[agentsLabel(place.cluster)] = place.group;
  // Volumes do not work on a node that still runs agents of another StorageCluster.
  if (place !== undefined && agentsLabel(place.cluster) in wanted) {
    wanted[agentTopologyKey] = topologyValue;
    wanted[clusterTopologyKey(place.cluster)] = topologyValue;
  }
  for (const cluster of clusters) {
    const key = agentsLabel(cluster.metadata.name);
    if (!(key in wanted) && (key in labels || isAnchored(cluster, labels))) wanted[key] = noAgents;
  }
  const stale = Object.keys(labels).filter((key) => isOurs(key) && !(key in wanted));
  const missing = Object.entries(wanted).filter(([key, value]) => labels[key] !== value);
  if (stale.length === 0 && missing.length === 0) return undefined;
  return Object.fromEntries([...stale.map((key) => [key, null]), ...missing]);
}

/** Pure. A merge patch that removes our labels; undefined without any. */
export function withoutTopologyLabels(labels: Labels | undefined): object | undefined {
  const changes = labelChanges(labels ?? {}, undefined, false, []);
  return changes && { metadata: { labels: changes } };
}

function isOurs(key: string): boolean {
  return key === agentTopologyKey || key.startsWith(clusterTopologyPrefix) || key.startsWith(agentsLabelPrefix);
}
