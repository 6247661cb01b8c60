import { HearthError, ignoring } from '@hearth/common';
import { type EventRecorder, objectKey, type ResourceType } from '@hearth/common/kubernetes';
import { type CachePreload, cachePreloads, type Dataset, registeredName } from '@hearth/common/resources';
import { isAway } from '../agents/index.ts';
import type { CleanUpResult, ObjectReconciler, Pass } from '../reconciler/index.ts';
import type { ClusterExecutor } from './cluster_executor.ts';
import type { MeasureCache } from './measure_cache.ts';
import type { Measure, ObservedDataset, ObservedNode, ObservedPreload } from './observation.ts';
import { type PreloadAction, plan, requeueAfterMs } from './plan.ts';
import type { NodeReadiness, PodGroupStatuses, ReadinessCache } from './readiness.ts';
import { Retries } from './retries.ts';
import { readinessOf, statusOf } from './status.ts';
import { hasEnded, wantedId, wantedOf } from './wanted.ts';
import { WrittenProgress } from './written_progress.ts';

export interface PreloadReconcilerOptions {
  /** Undefined when the StorageCluster has no known agent. */
  cluster(name: string): ClusterExecutor | undefined;
  isCluster(name: string): boolean;
  dataset(key: string): Dataset | undefined;
  nodesOf(cluster: string): readonly ObservedNode[];
  podGroups: Pick<PodGroupStatuses, 'of' | 'holds'>;
  measures: MeasureCache;
  events: Pick<EventRecorder, 'eventFor'>;
  readiness: Pick<ReadinessCache, 'set'>;
  now(): number;
  graceMs: number;
  removalTimeoutMs: number;
}

/** `publish` tells the gates the readiness before the status shows it. */
type PassAction = { kind: 'publish'; readiness: ReadonlyMap<string, NodeReadiness> | undefined } | PreloadAction;

const cleanUpRetryMs = 5_000;
/** Pods start within moments, ms. */
const heldRetryMs = 250;

const withoutAgents: Pick<ObservedPreload, 'agents' | 'jobs' | 'pins' | 'pinTroubles' | 'nodes'> = {
  agents: undefined,
  jobs: [],
  pins: undefined,
  pinTroubles: new Map(),
  nodes: [],
};

export class PreloadReconciler implements ObjectReconciler<CachePreload, ObservedPreload, PassAction> {
  readonly type: ResourceType<CachePreload> = cachePreloads;
  readonly progressReasons = [
    'Pending',
    'Warming',
    'Verifying',
    'AwaitingPlan',
    'AgentsUnavailable',
    'DatasetNotFound',
    'DatasetNotReady',
  ];
  /** Publishes first, so that pods with resident bytes wait for no other action. */
  readonly plan = (preload: CachePreload, observed: ObservedPreload): PassAction[] => [
    { kind: 'publish', readiness: readinessOf(preload, observed) },
    ...plan(preload, observed),
  ];
  readonly requeueAfterMs = requeueAfterMs;
  readonly status = (preload: CachePreload, { observed }: Pass<ObservedPreload, PassAction>) =>
    statusOf(preload, observed);
  readonly #options: PreloadReconcilerOptions;
  readonly #retries = new Map<string, Retries>();
  readonly #written: WrittenProgress;
  /** Since when a deletion waits for agents, by uid. */
  readonly #unreachable = new Map<string, number>();

  constructor(options: PreloadReconcilerOptions) {
    this.#options = options;
    this.#written = new WrittenProgress(options.now);
  }

  async observe(preload: CachePreload, signal: AbortSignal): Promise<ObservedPreload> {
    const { podGroups, now, graceMs } = this.#options;
    const key = objectKey(preload);
    const uid = preload.metadata.uid ?? '';
    const datasets = preload.spec.datasets.map(({ name }) => this.#dataset(preload, name));
    const clusters = [...new Set(datasets.flatMap(({ cluster }) => (cluster === undefined ? [] : [cluster])))].sort();
    const executor = clusters.length === 1 ? this.#options.cluster(clusters[0] as string) : undefined;
    const status = executor?.agents.status;
    const base = {
      now: now(),
      datasets,
      clusters,
      pods: preload.spec.placement.gatedPods === undefined ? undefined : podGroups.of(key),
      measures: new Map<string, Measure>(),
      unavailableSince: new Map<string, number>(),
      retryAt: new Map<string, number>(),
      graceMs,
      holdMs: this.#written.holdMs(preload),
    };
    if (executor === undefined || status === undefined) return { ...base, ...withoutAgents };
    const nodes = this.#options.nodesOf(executor.agents.cluster);
    if (!status.connected) return { ...base, ...withoutAgents, agents: status, nodes };
    const readyNodes = new Set(nodes.flatMap(({ name, ready }) => (ready ? [name] : [])));
    const names = [...nodes, ...(preload.status?.nodes ?? [])].map(({ name }) => name);
    executor.trackUnavailable(
      names,
      (name) => readyNodes.has(name) && status.nodes.get(name)?.ready === true,
      base.now,
    );
    const withAgents = datasets.map((dataset) => withAgentsState(dataset, status.datasets.get(dataset.registered)));
    let pins: ObservedPreload['pins'];
    let measures: ReadonlyMap<string, Measure> = base.measures;
    try {
      await executor.pins.load(signal);
      pins = executor.pins.of(uid);
      measures = await this.#measure(preload, executor, withAgents, signal);
    } catch (thrown) {
      if (!isAway(thrown) || signal.aborted) throw thrown;
    }
    const jobs = executor.jobs.of(uid);
    const observed = { ...base, datasets: withAgents, agents: status, nodes, jobs, pins, measures };
    const retries = this.#retries.get(key) ?? new Retries();
    this.#retries.set(key, retries);
    retries.note(preload, jobs, wantedOf(preload, observed), base.now);
    return {
      ...observed,
      unavailableSince: executor.unavailableSince,
      retryAt: retries.until,
      pinTroubles: executor.pins.troubles(uid),
    };
  }

  async apply(action: PassAction, preload: CachePreload, signal: AbortSignal): Promise<void> {
    const { events, readiness } = this.#options;
    if (action.kind === 'publish') return readiness.set(objectKey(preload), action.readiness);
    if (action.kind === 'event') {
      return events.eventFor(cachePreloads, preload, action.type, action.reason, action.message);
    }
    const executor = this.#executorOf(preload);
    if (executor === undefined)
      throw new HearthError('Unavailable', 'the operator does not know the agents of its StorageCluster yet');
    const uid = preload.metadata.uid ?? '';
    switch (action.kind) {
      case 'pin':
        await executor.pins.pin(uid, action.owner, action.wanted, action.nodes, signal);
        return await this.#publish(preload, signal);
      case 'startJob':
        return executor.jobs.note(await executor.agents.call('createWarmJob', action.request, { signal }));
      case 'cancelJob':
        return await this.#cancel(executor, action.name, signal);
      case 'releasePins':
        await executor.pins.release(uid, action.owner, action.nodes, signal);
        return await this.#publish(preload, signal);
    }
  }

  /** Pods that wait for pins need not wait for the end of the pass. */
  async #publish(preload: CachePreload, signal: AbortSignal): Promise<void> {
    this.#options.readiness.set(objectKey(preload), readinessOf(preload, await this.observe(preload, signal)));
  }

  /**
   * Cancels its jobs and releases its pins; ends after `removalTimeoutMs` without agents. That of a group of pods stays
   * until they have started, as its deletion is known from the object alone.
   */
  async cleanUp(preload: CachePreload, signal: AbortSignal): Promise<CleanUpResult> {
    const uid = preload.metadata.uid ?? '';
    this.#options.readiness.set(objectKey(preload), undefined);
    try {
      await this.#remove(preload, uid, signal);
    } catch (thrown) {
      if (signal.aborted) throw thrown;
      const { message } = HearthError.from(thrown);
      const { now, removalTimeoutMs, events } = this.#options;
      const since = this.#unreachable.get(uid) ?? now();
      this.#unreachable.set(uid, since);
      if (now() - since < removalTimeoutMs) return { waitingFor: message, requeueAfterMs: cleanUpRetryMs };
      // The sweep ends the remaining jobs and pins.
      const words = `the operator could not reach agents (${message}); the operator removes jobs and pins when an agent answers`;
      events.eventFor(cachePreloads, preload, 'Warning', 'RemovedWithoutAgents', words);
    }
    if (this.#isHeld(preload))
      return { waitingFor: 'the pods that waited for it to start', requeueAfterMs: heldRetryMs };
    this.forget(objectKey(preload), preload);
    return 'done';
  }

  forget(key: string, { metadata }: CachePreload): void {
    this.#retries.delete(key);
    this.#written.forget(key);
    this.#unreachable.delete(metadata.uid ?? '');
  }

  #isHeld({ metadata, spec }: CachePreload): boolean {
    const { deletionTimestamp } = metadata;
    if (spec.placement.gatedPods === undefined || deletionTimestamp === undefined) return false;
    return this.#options.podGroups.holds(objectKey({ metadata }), deletionTimestamp);
  }

  async #remove(preload: CachePreload, uid: string, signal: AbortSignal): Promise<void> {
    const executor = this.#executorOf(preload);
    if (executor?.agents.status === undefined) {
      // Without a StorageCluster no agent has jobs or pins.
      if (!this.#isCached(preload)) return;
      throw new HearthError('Unavailable', 'no agent of its StorageCluster has answered yet');
    }
    const { jobs, pins } = executor;
    for (const job of jobs.of(uid)) {
      if (!hasEnded(job)) await this.#cancel(executor, job.name, signal);
    }
    await pins.releaseAll(uid, signal);
    jobs.forget(uid);
  }

  async #cancel({ jobs, agents }: ClusterExecutor, name: string, signal: AbortSignal): Promise<void> {
    const job = await agents.call('cancelWarmJob', { name }, { signal }).catch(ignoring('NotFound'));
    if (job !== undefined) jobs.note(job);
  }

  #isCached(preload: CachePreload): boolean {
    const clusters = preload.spec.datasets.map(({ name }) => this.#dataset(preload, name).cluster);
    return clusters.some((cluster) => cluster !== undefined && this.#options.isCluster(cluster));
  }

  #executorOf(preload: CachePreload): ClusterExecutor | undefined {
    for (const { name } of preload.spec.datasets) {
      const { cluster } = this.#dataset(preload, name);
      const executor = cluster === undefined ? undefined : this.#options.cluster(cluster);
      if (executor !== undefined) return executor;
    }
    return undefined;
  }

  /** `cluster` may name a deleted StorageCluster. */
  #dataset(preload: CachePreload, name: string): ObservedDataset & { cluster: string | undefined } {
    const namespace = preload.metadata.namespace ?? '';
    const dataset = this.#options.dataset(`${namespace}/${name}`);
    const registered = registeredName(namespace, name);
    const cluster = dataset?.status?.cluster ?? dataset?.spec.clusterRef?.name;
    const base = { name, registered, cluster };
    if (dataset === undefined || dataset.metadata.deletionTimestamp !== undefined) {
      const what = dataset === undefined ? 'it does not exist yet' : 'it is being deleted';
      const trouble = { reason: 'DatasetNotFound' as const, message: `waits for Dataset ${name}: ${what}` };
      return { ...base, present: undefined, trouble };
    }
    const { manifest = '', revision = '', conditions } = dataset.status ?? {};
    if (manifest !== '') return { ...base, present: { manifest, revision }, trouble: undefined };
    const ready = conditions?.find(({ type }) => type === 'Ready');
    const message = `waits for Dataset ${name}: ${ready?.message ?? 'the operator has not looked at it yet'}`;
    return { ...base, present: { manifest, revision }, trouble: { reason: 'DatasetNotReady', message } };
  }

  async #measure(
    preload: CachePreload,
    executor: ClusterExecutor,
    datasets: readonly ObservedDataset[],
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, Measure>> {
    const measures = new Map<string, Measure>();
    const asks = datasets.flatMap(({ name, registered, present }, index) => {
      const paths = preload.spec.datasets[index]?.paths ?? [];
      const bound = preload.status?.revisions?.find(({ dataset }) => dataset === name)?.manifest;
      const manifests = present === undefined ? [] : [bound, present.manifest];
      return [...new Set(manifests)].flatMap((manifest) => (manifest ? [{ registered, manifest, paths }] : []));
    });
    await Promise.all(
      asks.map(async ({ registered, manifest, paths }) => {
        const measure = await this.#options.measures.measure(executor.agents, registered, manifest, paths, signal);
        measures.set(wantedId(registered, manifest, paths), measure);
      }),
    );
    return measures;
  }
}

/** Agents refuse requests about a Dataset whose origin has changed since its listing. */
function withAgentsState<D extends ObservedDataset>(
  dataset: D,
  known: { state: string; message: string; manifest: string } | undefined,
): D {
  if (dataset.trouble !== undefined || known === undefined || known.state === 'Ready') return dataset;
  const message = `waits for Dataset ${dataset.name}: ${known.message || known.state}`;
  return { ...dataset, trouble: { reason: 'DatasetNotReady', message } };
}
