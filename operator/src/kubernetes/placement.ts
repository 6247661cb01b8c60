import type { KubernetesObject, Reflector } from '@hearth/common/kubernetes';
import { agentsLabel, agentsLabelPrefix, noAgents } from '@hearth/common/names';
import { type NodeGroup, type StorageCluster, startupTaintKeys } from '@hearth/common/resources';
import { hasLabels, leavingTaints, type NodeFacts } from './node_facts.ts';
import { type Expression, expressionHolds, isTolerated, type Taint } from './node_matching.ts';

/** The part of a reflector that a controller reads. */
export type Source<P> = Pick<Reflector<KubernetesObject, P>, 'get' | 'all' | 'keys' | 'onChange' | 'synced'>;

/** `draining`: the group tolerates no longer that pods run there, so the node leaves when its bytes and pods have. */
export type Place = { cluster: string; group: string; draining?: true };

export type PlacementConflict = { node: string; group: string; takenBy: Place };

export interface Placement {
  places: ReadonlyMap<string, Place>;
  /** By cluster; includes conflicts within a cluster. */
  conflicts: ReadonlyMap<string, readonly PlacementConflict[]>;
}

/**
 * Assigns every node to the first group that selects it: oldest StorageCluster first, groups in order, so that clusters
 * never fight over a node. Ignores clusters under deletion.
 */
export function placeNodes(clusters: readonly StorageCluster[], nodes: readonly NodeFacts[]): Placement {
  const places = new Map<string, Place>();
  const conflicts = new Map<string, PlacementConflict[]>();
  for (const { metadata, spec } of [...clusters].sort(byAge)) {
    if (metadata.deletionTimestamp !== undefined) continue;
    const cluster = metadata.name;
    const own: PlacementConflict[] = [];
    for (const group of spec.nodeGroups) {
      for (const node of nodes) {
        const runs = node.labels[agentsLabel(cluster)] === group.name;
        if (!selects(group, node, runs)) continue;
        const takenBy = places.get(node.name);
        const evicting = node.taints.filter(({ effect }) => effect === 'NoExecute');
        const draining = runs && !tolerates(group, evicting);
        const place = { cluster, group: group.name, ...(draining ? { draining } : {}) };
        if (takenBy === undefined) places.set(node.name, place);
        else own.push({ node: node.name, group: group.name, takenBy });
      }
    }
    if (own.length > 0) conflicts.set(cluster, own);
  }
  return { places, conflicts };
}

function byAge(a: StorageCluster, b: StorageCluster): number {
  const [left, right] = [a.metadata.creationTimestamp ?? '', b.metadata.creationTimestamp ?? ''];
  if (left !== right) return left < right ? -1 : 1;
  return a.metadata.name < b.metadata.name ? -1 : 1;
}

/** Pure. The groups whose agents run on a node, by its labels; at most one, unless others wrote labels. */
export function agentsOn(labels: Readonly<Record<string, string>>): Place[] {
  return Object.entries(labels).flatMap(([key, group]) =>
    key.startsWith(agentsLabelPrefix) && group !== noAgents
      ? [{ cluster: key.slice(agentsLabelPrefix.length), group }]
      : [],
  );
}

export function staleAgents(labels: Readonly<Record<string, string>>, place: Place | undefined): Place[] {
  return agentsOn(labels).filter(({ cluster, group }) => cluster !== place?.cluster || group !== place.group);
}

/** The present placement, computed again after changes of nodes or StorageClusters. */
export class Placements {
  readonly #clusters: Source<StorageCluster>;
  readonly #nodes: Source<NodeFacts>;
  #known: Placement | undefined;

  constructor(clusters: Source<StorageCluster>, nodes: Source<NodeFacts>) {
    this.#clusters = clusters;
    this.#nodes = nodes;
  }

  /** Subscribes to the inputs. Returns the function that ends it. Must start before watches of nodes that use it. */
  start(): () => void {
    const forget = () => {
      this.#known = undefined;
    };
    const stops = [this.#clusters.onChange(forget), this.#nodes.onChange(forget)];
    return () => {
      for (const stop of stops) stop();
    };
  }

  async synced(): Promise<void> {
    await Promise.all([this.#clusters.synced(), this.#nodes.synced()]);
  }

  placeOf(node: string): Place | undefined {
    return this.#current.places.get(node);
  }

  nodesOf(cluster: string): string[] {
    return [...this.#current.places].flatMap(([node, place]) => (place.cluster === cluster ? [node] : []));
  }

  get #current(): Placement {
    this.#known ??= placeNodes(this.#clusters.all(), this.#nodes.all());
    return this.#known;
  }
}

/** Virtual nodes, of the virtual kubelet and AWS Fargate, cannot run agents. */
export const noVirtualNode: readonly Expression[] = [
  { key: 'type', operator: 'NotIn', values: ['virtual-kubelet'] },
  { key: 'eks.amazonaws.com/compute-type', operator: 'NotIn', values: ['fargate'] },
];

/** Labels of control planes, and taints of those that are reserved for them. */
export const controlPlaneKeys = ['node-role.kubernetes.io/control-plane', 'node-role.kubernetes.io/master'];

/** Taints of nodes with other duties, which agents tolerate only if the group says so. */
const reserved = new Set([...controlPlaneKeys, 'virtual-kubelet.io/provider']);

/** Temporary taints do not remove a cache. */
const temporaryTaints = new Set([...startupTaintKeys, ...leavingTaints]);
const conditionTaintPrefix = 'node.kubernetes.io/';

/** `runs`: the node runs an agent of the group. A taint that comes later ends none: bytes and readers would be lost. */
function selects(group: NodeGroup, node: Pick<NodeFacts, 'labels' | 'taints'>, runs: boolean): boolean {
  const { labels } = node;
  const holds = (one: Expression) => expressionHolds(one, labels[one.key]);
  if (labels['kubernetes.io/os'] !== 'linux' || !hasLabels(node, group.nodeSelector)) return false;
  if (!noVirtualNode.every(holds)) return false;
  const terms = termsOf(group);
  if (terms.length > 0 && !terms.some(({ matchExpressions }) => matchExpressions.every(holds))) return false;
  return runs || tolerates(group, node.taints);
}

function tolerates({ tolerations }: NodeGroup, taints: readonly Taint[]): boolean {
  const lasting = taints.filter(({ key }) => !temporaryTaints.has(key) && !key.startsWith(conditionTaintPrefix));
  if (tolerations === undefined) return !lasting.some(({ key }) => reserved.has(key));
  return lasting.every((taint) => isTolerated(taint, tolerations));
}

/** Alternatives beside the node selector; empty without any. */
export function termsOf({ affinity }: NodeGroup): readonly { matchExpressions: readonly Expression[] }[] {
  return affinity?.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
}
