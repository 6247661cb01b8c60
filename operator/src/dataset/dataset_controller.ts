import { isDeepStrictEqual } from 'node:util';
import type { Logger } from '@hearth/common';
import {
  type EventRecorder,
  type KubernetesClient,
  objectKey,
  runController,
  WorkQueue,
} from '@hearth/common/kubernetes';
import { type Dataset, type StorageCluster, splitRegisteredName } from '@hearth/common/resources';
import type { Agents, ClusterStatus } from '../agents/index.ts';
import type { Source } from '../kubernetes/index.ts';
import { reconcileObject } from '../reconciler/index.ts';
import { type SecretGrant, SecretReader, type SecretReaderOptions } from '../secrets/index.ts';
import type { ClusterView } from './cluster.ts';
import { DatasetReconciler } from './dataset_reconciler.ts';
import { isSameReport } from './figures.ts';
import { Removal } from './removal.ts';
import { Resolutions } from './resolutions.ts';
import { DatasetUsers, type Uses } from './users.ts';
import { WrittenFigures } from './written_figures.ts';

export interface DatasetControllerOptions {
  api: Pick<KubernetesClient, 'apply' | 'patch' | 'get'>;
  agents: Agents;
  datasets: Source<Dataset>;
  clusters: Source<StorageCluster>;
  /** Projected by `usesOfVolume`, or to something that has it. */
  volumes: Source<{ uses: Uses } | undefined>;
  /** Projected by `usesOfPod`. */
  pods: Source<Uses>;
  /** Of any projection: only their names are asked. */
  nodes: Pick<Source<unknown>, 'keys' | 'synced'>;
  events: Pick<EventRecorder, 'eventFor'>;
  grant: SecretGrant;
  logger: Logger;
  /** Milliseconds since the epoch. */
  now?: () => number;
  workers?: number;
  /** Listings at the same time. */
  looksAtOnce?: number;
  /** How long what was read of Secrets counts; absent: as SecretReader has it. */
  secretTimes?: Pick<SecretReaderOptions, 'foundMs' | 'failedMs'>;
  /** A deletion ends after this time though agents cannot be reached, milliseconds. */
  removalPatienceMs?: number;
}

/** Runs the reconciler of Datasets, on the leader only, until the signal aborts. The reflectors run already. */
export async function runDatasetController(options: DatasetControllerOptions, signal: AbortSignal): Promise<void> {
  await new DatasetController(options).run(signal);
}

class DatasetController {
  readonly #options: DatasetControllerOptions;
  /** Retries after conflicts with our own writes are many when hundreds of Datasets come at once. */
  readonly #queue = new WorkQueue({ firstDelayMs: 100, longestDelayMs: 60_000, ratePerSecond: 100, burst: 500 });
  readonly #resolutions: Resolutions;
  readonly #reconciler: DatasetReconciler;
  readonly #users: DatasetUsers;

  constructor(options: DatasetControllerOptions) {
    this.#options = options;
    const { agents, logger, api, events, grant, now = Date.now } = options;
    this.#resolutions = new Resolutions({
      agents,
      logger,
      now,
      atOnce: options.looksAtOnce ?? 32,
      changed: (key) => this.#queue.add(key),
    });
    this.#users = new DatasetUsers((key) => this.#usersChanged(key));
    this.#reconciler = new DatasetReconciler({
      agents,
      events,
      grant,
      now,
      clusters: () => options.clusters.all().map(clusterView),
      users: (key) => this.#users.of(key),
      secrets: new SecretReader({ api, now, ...options.secretTimes }),
      resolutions: this.#resolutions,
      removal: new Removal({
        agents,
        nodes: () => [...options.nodes.keys()],
        now,
        patienceMs: options.removalPatienceMs ?? 300_000,
      }),
      written: new WrittenFigures(now),
    });
  }

  async run(signal: AbortSignal): Promise<void> {
    const { datasets, clusters, volumes, pods, nodes, agents, api, events, logger } = this.#options;
    const stops = [
      volumes.onChange((key, before, after) => this.#users.update('volume', key, before?.uses, after?.uses)),
      pods.onChange((key, before, after) => this.#users.update('pod', key, before, after)),
      clusters.onChange((key, before, after) => this.#clusterChanged(key, before, after)),
      agents.onStatus((cluster, before, after) => this.#statusChanged(cluster, before, after)),
      datasets.onChange((key, before, after) => this.#datasetChanged(key, before, after)),
    ];
    try {
      // Without all users, or all nodes, a Dataset might go that is in use.
      await Promise.all([datasets, clusters, volumes, pods, nodes].map((source) => source.synced()));
      for (const key of volumes.keys()) this.#users.update('volume', key, undefined, volumes.get(key)?.uses);
      for (const key of pods.keys()) this.#users.update('pod', key, undefined, pods.get(key));
      for (const key of datasets.keys()) this.#queue.add(key);
      await runController({
        name: 'datasets',
        queue: this.#queue,
        workers: this.#options.workers ?? 16,
        reconcile: reconcileObject({ reconciler: this.#reconciler, api, objects: datasets, events, logger }),
        logger,
        signal,
      });
    } finally {
      for (const stop of stops) stop();
      this.#resolutions.close();
    }
  }

  #datasetChanged(key: string, before: Dataset | undefined, after: Dataset | undefined): void {
    if (after !== undefined) this.#queue.add(key);
    else if (before !== undefined) this.#reconciler.forget(key, before);
  }

  /** Only a Dataset that is being deleted waits for its users. */
  #usersChanged(key: string): void {
    if (this.#options.datasets.get(key)?.metadata.deletionTimestamp !== undefined) this.#queue.add(key);
  }

  #clusterChanged(name: string, before: StorageCluster | undefined, after: StorageCluster | undefined): void {
    const same = before !== undefined && after !== undefined;
    if (same && isDeepStrictEqual(clusterView(before), clusterView(after))) return;
    // Which cluster a Dataset without a reference belongs to depends on all of them.
    this.#addAll(({ spec, status }) => {
      return spec.clusterRef === undefined || spec.clusterRef.name === name || status?.cluster === name;
    });
  }

  #statusChanged(cluster: string, before: ClusterStatus | undefined, after: ClusterStatus | undefined): void {
    if (before?.connected !== after?.connected) {
      this.#connectionChanged(cluster);
      return;
    }
    const names = new Set([...(before?.datasets.keys() ?? []), ...(after?.datasets.keys() ?? [])]);
    for (const name of names) {
      if (isSameReport(before?.datasets.get(name), after?.datasets.get(name))) continue;
      const split = splitRegisteredName(name);
      if (split !== undefined) this.#queue.add(`${split.namespace}/${split.name}`);
    }
  }

  /** While none answered all agents may have been restarted, and no peer was left to ask for credentials. */
  #connectionChanged(cluster: string): void {
    this.#addAll((dataset) => {
      const { spec, status } = dataset;
      if ((spec.clusterRef?.name ?? status?.cluster ?? cluster) !== cluster) return false;
      this.#reconciler.credentialsLost(objectKey(dataset));
      return true;
    });
  }

  #addAll(concerned: (dataset: Dataset) => boolean): void {
    for (const dataset of this.#options.datasets.all()) if (concerned(dataset)) this.#queue.add(objectKey(dataset));
  }
}

function clusterView({ metadata, spec }: StorageCluster): ClusterView {
  return { name: metadata.name, directoryPrefixes: spec.origins.directoryPrefixes };
}
