import { isDeepStrictEqual } from 'node:util';
import { HearthError, type Logger } from '@hearth/common';
import type { WarmJob } from '@hearth/common/generated/hearth/v1/control.ts';
import {
  type Clock,
  type ControllerOptions,
  type EventRecorder,
  hasNewSpec,
  type KubernetesClient,
  objectKey,
  ownKey,
  runController,
  sleep,
  splitKey,
  systemClock,
  WorkQueue,
  watch,
} from '@hearth/common/kubernetes';
import { type CachePreload, type Dataset, registeredName, type StorageCluster } from '@hearth/common/resources';
import type { Agents, ClusterStatus } from '../agents/index.ts';
import { type NodeFacts, Placements, type Source } from '../kubernetes/index.ts';
import { reconcileObject } from '../reconciler/index.ts';
import { ClusterExecutor } from './cluster_executor.ts';
import { MeasureCache } from './measure_cache.ts';
import type { PreloadMetrics } from './preload_metrics.ts';
import { PreloadReconciler } from './preload_reconciler.ts';
import type { PodGroupStatuses, ReadinessCache } from './readiness.ts';
import { hasEnded, uidOfJob } from './wanted.ts';

export interface PreloadControllerOptions {
  api: Pick<KubernetesClient, 'apply' | 'patch'>;
  agents: Agents;
  preloads: Source<CachePreload>;
  datasets: Source<Dataset>;
  clusters: Source<StorageCluster>;
  nodes: Source<NodeFacts>;
  podGroups: PodGroupStatuses;
  readiness: ReadinessCache;
  metrics?: PreloadMetrics;
  events: Pick<EventRecorder, 'eventFor'>;
  logger: Logger;
  clock?: Clock;
  graceMs?: number;
  /** A deletion ends after this time without agents, ms. */
  removalTimeoutMs?: number;
  sweepMs?: number;
}

const progressMs = 1_000;

/** Runs on the leader only, until the signal aborts. The reflectors must run already. */
export async function runPreloadController(options: PreloadControllerOptions, signal: AbortSignal): Promise<void> {
  await new PreloadController(options).run(signal);
}

class PreloadController {
  readonly #options: PreloadControllerOptions;
  readonly #queue = new WorkQueue({ firstDelayMs: 100, longestDelayMs: 60_000, ratePerSecond: 100, burst: 500 });
  readonly #executors = new Map<string, ClusterExecutor>();
  readonly #keys = new Map<string, string>();
  readonly #placements: Placements;
  readonly #measures: MeasureCache;
  readonly #reconciler: PreloadReconciler;
  readonly #clock: Clock;

  constructor(options: PreloadControllerOptions) {
    this.#options = options;
    const { datasets, clusters, nodes, podGroups, events, clock = systemClock } = options;
    const now = () => clock.date().getTime();
    this.#clock = clock;
    this.#measures = new MeasureCache(now);
    this.#placements = new Placements(clusters, nodes);
    this.#reconciler = new PreloadReconciler({
      cluster: (name) => this.#executor(name),
      isCluster: (name) => clusters.get(name) !== undefined,
      dataset: (key) => datasets.get(key),
      nodesOf: (cluster) => this.#placements.nodesOf(cluster).flatMap((name) => nodes.get(name) ?? []),
      podGroups,
      measures: this.#measures,
      readiness: options.readiness,
      events,
      now,
      graceMs: options.graceMs ?? 20_000,
      removalTimeoutMs: options.removalTimeoutMs ?? 300_000,
    });
  }

  async run(signal: AbortSignal): Promise<void> {
    const { preloads, datasets, clusters, nodes, podGroups, agents, api, events, logger } = this.#options;
    const reconcile = reconcileObject({ reconciler: this.#reconciler, api, objects: preloads, events, logger });
    let sweeping: Promise<void> | undefined;
    const controller: ControllerOptions = {
      name: 'preloads',
      queue: this.#queue,
      workers: 128,
      watches: [
        this.#placements,
        watch(preloads, (key, before, after) => this.#preloadChanged(key, before, after)),
        watch(datasets, (key, before, after) => {
          if (before?.metadata.uid !== after?.metadata.uid) this.#forgetDataset(key);
          return this.#keysWhere(({ metadata, spec }) =>
            spec.datasets.some(({ name }) => `${metadata.namespace}/${name}` === key),
          );
        }),
        watch(nodes, (_name, before, after) => {
          if (isDeepStrictEqual(before, after)) return [];
          return this.#keysWhere(({ spec }) => spec.placement.gatedPods === undefined);
        }),
        watch(clusters, (_name, before, after) => (hasNewSpec(before, after) ? preloads.keys() : [])),
        watch(podGroups, ownKey),
        watch(agents, (cluster, before, after) => this.#reported(cluster, before, after)),
      ],
      first: () => {
        for (const { metadata } of preloads.all()) this.#keys.set(metadata.uid ?? '', objectKey({ metadata }));
        // The sweep starts with every uid known, or it would end jobs of living CachePreloads.
        sweeping = this.#sweepAll(signal);
        return preloads.keys();
      },
      reconcile,
      logger,
      signal,
    };
    try {
      await runController(controller);
    } finally {
      await sweeping;
      for (const executor of this.#executors.values()) executor.close();
      this.#options.readiness.clear();
    }
  }

  #executor(cluster: string): ClusterExecutor | undefined {
    const agents = this.#options.agents.get(cluster);
    const known = this.#executors.get(cluster);
    if (known !== undefined && known.agents === agents) return known;
    known?.close();
    this.#executors.delete(cluster);
    if (agents === undefined) return undefined;
    const { logger } = this.#options;
    const changed = (job: WarmJob, before: WarmJob | undefined) => this.#jobChanged(job, before);
    const made = new ClusterExecutor(agents, { logger, changed, clock: this.#clock });
    this.#executors.set(cluster, made);
    return made;
  }

  #preloadChanged(key: string, before: CachePreload | undefined, after: CachePreload | undefined): string[] {
    const { metrics, readiness } = this.#options;
    const [gone, uid] = [before?.metadata.uid, after?.metadata.uid];
    if (gone !== undefined && gone !== uid) this.#keys.delete(gone);
    if (uid !== undefined) this.#keys.set(uid, key);
    if (after === undefined) {
      if (before !== undefined) this.#reconciler.forget(key, before);
      readiness.set(key, undefined);
      return [];
    }
    const completed = after.status?.completedAt;
    if (before !== undefined && before.status?.completedAt === undefined && completed !== undefined) {
      metrics?.ready((Date.parse(completed) - Date.parse(after.metadata.creationTimestamp ?? '')) / 1000);
    }
    // Only this controller writes the status, so other status changes need no pass.
    const { generation, deletionTimestamp } = after.metadata;
    const was = before?.metadata;
    const same = was?.generation === generation && was?.deletionTimestamp === deletionTimestamp && was?.uid === uid;
    return same && before?.status?.phase === after.status?.phase ? [] : [key];
  }

  #jobChanged(job: WarmJob, before: WarmJob | undefined): void {
    this.#options.metrics?.moved(job, before);
    const key = this.#keys.get(uidOfJob(job.name) ?? '');
    if (key === undefined) return;
    if (hasEnded(job) || partStates(job) !== partStates(before)) this.#queue.add(key);
    else this.#queue.addAfter(key, progressMs);
  }

  #reported(cluster: string, before: ClusterStatus | undefined, after: ClusterStatus | undefined): string[] {
    if (before?.connected !== after?.connected) {
      // Agents may come back with another store.
      if (after?.connected === true) this.#executors.get(cluster)?.pins.forget();
      return this.#keysWhere((preload) => this.#isOf(preload, cluster));
    }
    const names = new Set([...(before?.nodes.keys() ?? []), ...(after?.nodes.keys() ?? [])]);
    const moved = [...names].some((name) => before?.nodes.get(name)?.ready !== after?.nodes.get(name)?.ready);
    const forgotten = [...(before?.datasets.keys() ?? [])].filter((name) => after?.datasets.has(name) === false);
    for (const name of forgotten) this.#measures.forget(name);
    if (forgotten.length > 0) this.#executors.get(cluster)?.pins.forget();
    const changed = changedDatasets(before, after);
    if (!moved && changed.size === 0) return [];
    return this.#keysWhere((preload) => {
      if (moved && this.#isOf(preload, cluster)) return true;
      return preload.spec.datasets.some(({ name }) =>
        changed.has(registeredName(preload.metadata.namespace ?? '', name)),
      );
    });
  }

  /** Agents that forget a Dataset release its pins of every owner, and forget its revisions. */
  #forgetDataset(key: string): void {
    const { namespace = '', name } = splitKey(key);
    this.#measures.forget(registeredName(namespace, name));
    for (const { pins } of this.#executors.values()) pins.forget();
  }

  #isOf({ metadata, spec }: CachePreload, cluster: string): boolean {
    return spec.datasets.some(({ name }) => {
      const dataset = this.#options.datasets.get(`${metadata.namespace}/${name}`);
      return (dataset?.status?.cluster ?? dataset?.spec.clusterRef?.name) === cluster;
    });
  }

  #keysWhere(concerned: (preload: CachePreload) => boolean): string[] {
    return this.#options.preloads.all().filter(concerned).map(objectKey);
  }

  async #sweepAll(signal: AbortSignal): Promise<void> {
    const { clusters, logger, sweepMs = 300_000 } = this.#options;
    while (!signal.aborted) {
      await sleep(this.#clock, sweepMs, signal);
      for (const cluster of clusters.keys()) {
        const executor = this.#executor(cluster);
        if (signal.aborted || executor?.agents.status?.connected !== true) continue;
        executor.pins.forget();
        await executor
          // Called after the agents have answered, since CachePreloads may have been created meanwhile.
          .sweep((uid) => this.#keys.has(uid), signal)
          .catch((thrown) =>
            logger.debug('failed to look for orphaned warm jobs and pins; retrying', {
              error: HearthError.from(thrown),
            }),
          );
      }
    }
  }
}

function partStates(job: WarmJob | undefined): string {
  return (job?.nodes ?? []).map(({ node, state }) => `${node} ${state}`).join();
}

function changedDatasets(before: ClusterStatus | undefined, after: ClusterStatus | undefined): Set<string> {
  const changed = new Set<string>();
  for (const name of new Set([...(before?.datasets.keys() ?? []), ...(after?.datasets.keys() ?? [])])) {
    const [was, is] = [before?.datasets.get(name), after?.datasets.get(name)];
    // Of a status that shares with the one before it what has not changed.
    if (was === is) continue;
    const same =
      was?.manifest === is?.manifest && was?.state === is?.state && isDeepStrictEqual(was?.residency, is?.residency);
    if (!same) changed.add(name);
  }
  return changed;
}
