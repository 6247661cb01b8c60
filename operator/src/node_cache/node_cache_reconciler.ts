import { isDeepStrictEqual } from 'node:util';
import type { NodeStatus } from '@hearth/common/generated/hearth/v1/control.ts';
import {
  type Applied,
  type KubernetesClient,
  kinds,
  ownerReference,
  type ReconcileResult,
} from '@hearth/common/kubernetes';
import type { Condition, NodeCache, StorageCluster } from '@hearth/common/resources';
import type { Agents, ClusterStatus } from '../agents/index.ts';
import type { Place, Source } from '../kubernetes/index.ts';
import type { KeptCopies } from '../nodes/index.ts';
import { type ConditionState, findCondition, writtenConditions } from '../reconciler/index.ts';
import { type Figures, figuresOf, readyCondition } from './cached.ts';

export interface NodeCacheReconcilerOptions {
  api: Pick<KubernetesClient, 'apply' | 'delete'>;
  agents: Pick<Agents, 'get'>;
  caches: Source<NodeCache>;
  clusters: Source<StorageCluster>;
  /** The group that a node belongs to now. */
  placeOf: (node: string) => Place | undefined;
  kept: Pick<KeptCopies, 'condition'>;
  now: () => number;
}

/** Between two writes of one status whose figures have changed; a condition that turns is written at once. */
export const betweenWritesMs = 10_000;
/** How long a new leader waits for the agents before it says that none answers. */
const patienceMs = 30_000;

/** The NodeCache of a node: there while the node belongs to a StorageCluster, with what its agent says. */
export class NodeCacheReconciler {
  readonly #options: NodeCacheReconcilerOptions;
  /** When each status was written last, milliseconds since the epoch. */
  readonly #written = new Map<string, number>();
  readonly #began: number;

  constructor(options: NodeCacheReconcilerOptions) {
    this.#options = options;
    this.#began = options.now();
  }

  async reconcile(node: string, signal: AbortSignal): Promise<ReconcileResult> {
    const { api, caches, clusters, placeOf } = this.#options;
    const cache = caches.get(node);
    const place = placeOf(node);
    const cluster = place && clusters.get(place.cluster);
    if (cluster === undefined) {
      this.#written.delete(node);
      if (cache !== undefined) await api.delete(kinds.NodeCache, node, undefined, { signal });
      return {};
    }
    const wanted = nodeCache(node, cluster);
    const present = isPresent(wanted, cache)
      ? (cache as NodeCache)
      : await api.apply(kinds.NodeCache, wanted, { signal });
    return await this.#writeStatus(present, cluster.metadata.name, signal);
  }

  /** While no agent reports the node, what was known stays. */
  #figures(cache: NodeCache, status: ClusterStatus | undefined, agent: NodeStatus | undefined): Figures {
    if (status?.connected !== true) return remembered(cache);
    if (agent !== undefined) return figuresOf(agent, status);
    return { ...remembered(cache), ready: false, reason: 'the agent of the node has not joined the cluster' };
  }

  async #writeStatus(cache: NodeCache, cluster: string, signal: AbortSignal): Promise<ReconcileResult> {
    const { api, agents, kept, now } = this.#options;
    const { name, generation = 0 } = cache.metadata;
    const status = agents.get(cluster)?.status;
    const silentMs = this.#began + patienceMs - now();
    if (status === undefined && silentMs > 0) return { requeueAfterMs: silentMs };
    const agent = status?.nodes.get(name);
    const before = cache.status;
    const figures = this.#figures(cache, status, agent);
    const ready = readyCondition(agent, status?.connected ?? false);
    const copies = kept.condition(name, status);
    const time = new Date(now());
    const states = copies === undefined ? [ready] : [ready, copies];
    const conditions = writtenConditions(before?.conditions, states, generation, time);
    const news = !isDeepStrictEqual([figures, conditions], [remembered(cache), before?.conditions ?? []]);
    if (!news) return {};
    const last = this.#written.get(name) ?? 0;
    const wait = last + betweenWritesMs - now();
    if (wait > 0 && !turned(before?.conditions, states)) return { requeueAfterMs: wait };
    this.#written.set(name, now());
    const written = { ...figures, observedGeneration: generation, conditions, updatedAt: time.toISOString() };
    await api.apply(kinds.NodeCache, { metadata: { name }, status: written }, { subresource: 'status', signal });
    return {};
  }
}

function nodeCache(node: string, cluster: StorageCluster): Applied<NodeCache> {
  return {
    metadata: { name: node, ownerReferences: [ownerReference(kinds.StorageCluster, cluster)] },
    spec: { clusterRef: { name: cluster.metadata.name }, nodeName: node },
  };
}

function isPresent(wanted: Applied<NodeCache>, cache: NodeCache | undefined): boolean {
  if (cache === undefined || cache.metadata.deletionTimestamp !== undefined) return false;
  const owner = wanted.metadata?.ownerReferences?.[0]?.uid;
  return isDeepStrictEqual(cache.spec, wanted.spec) && cache.metadata.ownerReferences?.[0]?.uid === owner;
}

/** Whether one of them has another status than it had. */
function turned(before: readonly Condition[] | undefined, states: readonly ConditionState[]): boolean {
  return states.some(({ type, status }) => findCondition(before, type)?.status !== status);
}

/** The figures that were written last. */
function remembered({ status }: NodeCache): Figures {
  const { observedGeneration: _, conditions: __, updatedAt: ___, reboundPods: ____, ...figures } = status ?? {};
  return figures;
}
