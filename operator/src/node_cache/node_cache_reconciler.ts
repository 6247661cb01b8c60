import { isDeepStrictEqual } from 'node:util';
import { type Clock, epochMs, sleep, systemClock } from '@hearth/common';
import type { NodeStatus } from '@hearth/common/generated/hearth/v1/control.ts';
import {
  type Applied,
  hasNewSpec,
  type KubernetesClient,
  kinds,
  ownerReference,
  ownKey,
  runController,
  TokenBucket,
  watch,
} from '@hearth/common/kubernetes';
import type { Condition, NodeCache, StorageCluster } from '@hearth/common/resources';
import type { Agents, ClusterStatus } from '../agents/index.ts';
import type { Place, Source } from '../kubernetes/index.ts';
import { KeptCopies } from '../nodes/index.ts';
import {
  type ConditionState,
  type ControllerParts,
  findCondition,
  type Reconciler,
  reconcileKey,
  writtenConditions,
} from '../reconciler/index.ts';
import { type Figures, figuresOf, readyCondition } from './cached.ts';

export interface NodeCacheReconcilerOptions {
  api: Pick<KubernetesClient, 'apply' | 'delete'>;
  agents: Pick<Agents, 'get'>;
  caches: Source<NodeCache>;
  clusters: Source<StorageCluster>;
  placeOf: (node: string) => Place | undefined;
  kept: Pick<KeptCopies, 'condition'>;
  now: () => number;
  clock?: Clock;
}

/** The least time between two writes of a node's figures; changed conditions are written at once, ms. */
const writePauseMs = 10_000;
/** Writes of all nodes together, so that a large cluster does not fill the API server's etcd. */
const writeLimits = { ratePerSecond: 50, burst: 50 };
/** A new leader gives agents this time before it reports that none answers, ms. */
const timeoutMs = 30_000;

export interface ObservedNodeCache {
  now: number;
  cache: NodeCache | undefined;
  cluster: StorageCluster | undefined;
  status: ClusterStatus | undefined;
  copies: ConditionState | undefined;
  /** Start of this operator and last write of the status, milliseconds since the epoch. */
  startedAt: number;
  writtenAt: number;
  /** The least time between two writes of figures, ms. */
  pauseMs: number;
}

export type NodeCacheAction =
  | { kind: 'delete' }
  /** `object` is set for a new or changed NodeCache, `status` when it is due. */
  | { kind: 'write'; object: Applied<NodeCache> | undefined; status: WantedStatus | undefined };

type WantedStatus = { figures: Figures; states: readonly ConditionState[]; now: number };

/** Keeps one NodeCache for each node of a StorageCluster. Keys are names of nodes. */
export class NodeCacheReconciler implements Reconciler<string, ObservedNodeCache, NodeCacheAction> {
  readonly plan = (node: string, observed: ObservedNodeCache) => planNodeCache(node, observed).actions;
  readonly requeueAfterMs = (node: string, observed: ObservedNodeCache) => planNodeCache(node, observed).requeueAfterMs;
  readonly #options: NodeCacheReconcilerOptions;
  readonly #writtenAt = new Map<string, number>();
  readonly #startedAt: number;
  readonly #clock: Clock;
  readonly #writes: TokenBucket;

  constructor(options: NodeCacheReconcilerOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#writes = new TokenBucket(writeLimits, this.#clock);
    this.#startedAt = options.now();
  }

  async observe(node: string): Promise<ObservedNodeCache> {
    const { agents, caches, clusters, placeOf, kept, now } = this.#options;
    const place = placeOf(node);
    const cluster = place && clusters.get(place.cluster);
    if (cluster === undefined) this.#writtenAt.delete(node);
    const status = cluster && agents.get(cluster.metadata.name)?.status;
    return {
      now: now(),
      cache: caches.get(node),
      cluster,
      status,
      copies: kept.condition(node, status),
      startedAt: this.#startedAt,
      writtenAt: this.#writtenAt.get(node) ?? 0,
      pauseMs: pauseOf(caches.keys().length),
    };
  }

  async apply(action: NodeCacheAction, name: string, signal: AbortSignal): Promise<void> {
    const { api, caches } = this.#options;
    if (action.kind === 'delete') {
      await api.delete(kinds.NodeCache, name, undefined, { signal });
      return;
    }
    const { object, status } = action;
    if (object !== undefined) await this.#paced(signal);
    const cache = object === undefined ? caches.get(name) : await api.apply(kinds.NodeCache, object, { signal });
    if (cache === undefined || status === undefined) return;
    await this.#paced(signal);
    this.#writtenAt.set(name, status.now);
    const written = { ...statusToWrite(cache, status), updatedAt: new Date(status.now).toISOString() };
    await api.apply(kinds.NodeCache, { metadata: { name }, status: written }, { subresource: 'status', signal });
  }

  /** Waits for this write's turn. */
  async #paced(signal: AbortSignal): Promise<void> {
    const waitMs = this.#writes.reserve();
    if (waitMs > 0) await sleep(this.#clock, waitMs, signal);
    signal.throwIfAborted();
  }
}

export function planNodeCache(
  node: string,
  { now, cache, cluster, status, copies, startedAt, writtenAt, pauseMs }: ObservedNodeCache,
): { actions: NodeCacheAction[]; requeueAfterMs?: number } {
  if (cluster === undefined) return { actions: cache === undefined ? [] : [{ kind: 'delete' }] };
  const wanted = nodeCache(node, cluster);
  const object = isPresent(wanted, cache) ? undefined : wanted;
  const creation: NodeCacheAction[] = object === undefined ? [] : [{ kind: 'write', object, status: undefined }];
  const silentMs = startedAt + timeoutMs - now;
  if (status === undefined && silentMs > 0) return { actions: creation, requeueAfterMs: silentMs };
  const agent = status?.nodes.get(node);
  const ready = readyCondition(agent, status?.connected ?? false);
  const states = copies === undefined ? [ready] : [ready, copies];
  const next = { figures: figuresNow(cache, status, agent), states, now };
  if (object === undefined && cache !== undefined && isWritten(cache, next)) return { actions: [] };
  const wait = writtenAt + pauseMs - now;
  if (wait > 0 && !hasTransition(cache?.status?.conditions, states)) return { actions: creation, requeueAfterMs: wait };
  return { actions: [{ kind: 'write', object, status: next }] };
}

/** Nodes whose figures change all the time share the rate of all writes. */
function pauseOf(nodes: number): number {
  return Math.max(writePauseMs, (nodes * 1000) / writeLimits.ratePerSecond);
}

function figuresNow(
  cache: NodeCache | undefined,
  status: ClusterStatus | undefined,
  agent: NodeStatus | undefined,
): Figures {
  if (status?.connected !== true) return remembered(cache);
  if (agent !== undefined) return figuresOf(agent, status);
  return { ...remembered(cache), ready: false, reason: 'the agent of the node has not joined the cluster' };
}

function statusToWrite({ metadata, status }: NodeCache, { figures, states, now }: WantedStatus) {
  const { generation = 0 } = metadata;
  const conditions = writtenConditions(status?.conditions, states, generation, new Date(now));
  return { ...figures, observedGeneration: generation, conditions };
}

function isWritten(cache: NodeCache, wanted: WantedStatus): boolean {
  const { conditions } = statusToWrite(cache, wanted);
  return isDeepStrictEqual([wanted.figures, conditions], [remembered(cache), cache.status?.conditions ?? []]);
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

function hasTransition(before: readonly Condition[] | undefined, states: readonly ConditionState[]): boolean {
  return states.some(({ type, status }) => findCondition(before, type)?.status !== status);
}

function remembered(cache: NodeCache | undefined): Figures {
  const { observedGeneration: _, conditions: __, updatedAt: ___, reboundPods: ____, ...figures } = cache?.status ?? {};
  return figures;
}

export async function runNodeCacheController(parts: ControllerParts, signal: AbortSignal): Promise<void> {
  const { agents, clusters, nodes, caches, datasets, placements, logger } = parts;
  const placeOf = (node: string) => placements.placeOf(node);
  const now = () => epochMs(systemClock);
  const kept = new KeptCopies({ ...parts, placeOf });
  const reconciler = new NodeCacheReconciler({ ...parts, placeOf, kept, now });
  const all = () => new Set([...nodes.keys(), ...caches.keys()]);
  await runController({
    name: 'nodecaches',
    workers: 8,
    watches: [
      watch(nodes, ownKey),
      // Only this controller writes the status, so only changes of the spec matter.
      watch(caches, (name, before, after) => (after === undefined || hasNewSpec(before, after) ? [name] : [])),
      watch(clusters, (_name, before, after) => (hasNewSpec(before, after) ? all() : [])),
      watch(agents, (cluster, before, after) =>
        placements.nodesOf(cluster).filter((node) => {
          return (
            before?.connected !== after?.connected || before?.nodes.get(node)?.ready !== after?.nodes.get(node)?.ready
          );
        }),
      ),
      // Whether a node may leave depends on copies on other nodes.
      watch(
        agents,
        (cluster, before, after) =>
          placements.nodesOf(cluster).filter((node) => {
            return (
              kept.condition(node, after) !== undefined || !sameFigures(before?.nodes.get(node), after?.nodes.get(node))
            );
          }),
        () => pauseOf(caches.keys().length) * (0.5 + systemClock.random() / 2),
      ),
    ],
    reads: [datasets],
    first: all,
    reconcile: reconcileKey(reconciler, (node) => node),
    logger,
    signal,
  });
}

/** True when a NodeCache would not change. */
function sameFigures(was: NodeStatus | undefined, is: NodeStatus | undefined): boolean {
  if (was === undefined || is === undefined) return was === is;
  return (
    was.usedBytes === is.usedBytes &&
    was.budgetBytes === is.budgetBytes &&
    was.reason === is.reason &&
    isDeepStrictEqual(was.residentBytes, is.residentBytes) &&
    isDeepStrictEqual(was.capabilities, is.capabilities)
  );
}
