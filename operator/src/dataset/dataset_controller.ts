import { isDeepStrictEqual } from 'node:util';
import { epochMs, type Logger, systemClock } from '@hearth/common';
import {
  type EventRecorder,
  type KubernetesClient,
  objectKey,
  runController,
  WorkQueue,
  watch,
} from '@hearth/common/kubernetes';
import { type Dataset, type StorageCluster, splitRegisteredName } from '@hearth/common/resources';
import { type Agents, type ClusterStatus, sameNodesWithout } from '../agents/index.ts';
import type { Source } from '../kubernetes/index.ts';
import { reconcileObject } from '../reconciler/index.ts';
import { type SecretGrant, SecretReader, type SecretReaderOptions } from '../secrets/index.ts';
import type { ClusterView } from './cluster.ts';
import { DatasetReconciler } from './dataset_reconciler.ts';
import { isSameReport } from './figures.ts';
import { hubLayoutFeature, mirrorsFeature, volumeFeature } from './registration.ts';
import { Removal } from './removal.ts';
import { Resolutions } from './resolutions.ts';
import { type ClaimedScratch, claimOfSource } from './source_volume.ts';
import { DatasetUsers, type Uses } from './users.ts';

export interface DatasetControllerOptions {
  api: Pick<KubernetesClient, 'apply' | 'patch' | 'get'>;
  agents: Agents;
  datasets: Source<Dataset>;
  clusters: Source<StorageCluster>;
  volumes: Source<(ClaimedScratch & { uses: Uses }) | undefined>;
  pods: Source<Uses>;
  nodes: Pick<Source<unknown>, 'keys' | 'synced'>;
  events: Pick<EventRecorder, 'eventFor'>;
  grant: SecretGrant;
  logger: Logger;
  now?: () => number;
  secretTimes?: Pick<SecretReaderOptions, 'foundMs' | 'failedMs'>;
  /** A deletion ends after this time without agents, ms. */
  removalTimeoutMs?: number;
}

/** Runs on the leader only, until the signal aborts. The reflectors must run already. */
export async function runDatasetController(options: DatasetControllerOptions, signal: AbortSignal): Promise<void> {
  await new DatasetController(options).run(signal);
}

class DatasetController {
  readonly #options: DatasetControllerOptions;
  /** Hundreds of new Datasets cause many retries after conflicts with our own writes. */
  readonly #queue = new WorkQueue({ firstDelayMs: 100, longestDelayMs: 60_000, ratePerSecond: 100, burst: 500 });
  readonly #resolutions: Resolutions;
  readonly #reconciler: DatasetReconciler;
  readonly #users: DatasetUsers;

  constructor(options: DatasetControllerOptions) {
    this.#options = options;
    const { agents, logger, api, events, grant, now = () => epochMs(systemClock) } = options;
    const timeoutMs = options.removalTimeoutMs ?? 300_000;
    this.#resolutions = new Resolutions({
      agents,
      logger,
      now,
      maxConcurrent: 32,
      changed: (key) => this.#queue.add(key),
    });
    this.#users = new DatasetUsers((key) => {
      // Only a deletion waits for users.
      if (options.datasets.get(key)?.metadata.deletionTimestamp !== undefined) this.#queue.add(key);
    });
    this.#reconciler = new DatasetReconciler({
      agents,
      events,
      grant,
      now,
      clusters: () => options.clusters.all().map(clusterView),
      users: (key) => this.#users.of(key),
      volumes: () => options.volumes.all().filter((volume) => volume !== undefined),
      secrets: new SecretReader({ api, now, ...options.secretTimes }),
      resolutions: this.#resolutions,
      removal: new Removal({ agents, nodes: () => options.nodes.keys(), now, timeoutMs }),
    });
  }

  async run(signal: AbortSignal): Promise<void> {
    const { datasets, clusters, volumes, pods, nodes, agents, api, events, logger } = this.#options;
    const reconciler = this.#reconciler;
    const watches = [
      watch(volumes, (key, before, after) => {
        this.#users.update('volume', key, before?.uses, after?.uses);
        return this.#ofClaims([before?.claim, after?.claim]);
      }),
      watch(pods, (key, before, after) => this.#users.update('pod', key, before, after)),
      watch(clusters, (name, before, after) => this.#ofCluster(name, before, after)),
      watch(agents, (cluster, before, after) => this.#reported(cluster, before, after)),
      watch(datasets, (key, before, after) => {
        if (after !== undefined) return [key];
        if (before !== undefined) reconciler.forget(key, before);
        return [];
      }),
    ];
    const first = () => {
      for (const key of volumes.keys()) this.#users.update('volume', key, undefined, volumes.get(key)?.uses);
      for (const key of pods.keys()) this.#users.update('pod', key, undefined, pods.get(key));
      return datasets.keys();
    };
    const reconcile = reconcileObject({ reconciler, api, objects: datasets, events, logger });
    const queue = this.#queue;
    try {
      // An incomplete list of users or nodes could delete a Dataset in use.
      const reads = [nodes];
      await runController({ name: 'datasets', queue, workers: 16, watches, reads, first, reconcile, logger, signal });
    } finally {
      this.#resolutions.close();
    }
  }

  #ofCluster(name: string, before: StorageCluster | undefined, after: StorageCluster | undefined): string[] {
    const same = before !== undefined && after !== undefined;
    if (same && isDeepStrictEqual(clusterView(before), clusterView(after))) return [];
    // The choice for a Dataset without a reference depends on all clusters.
    return this.#keys(({ spec, status }) => {
      return spec.clusterRef === undefined || spec.clusterRef.name === name || status?.cluster === name;
    });
  }

  /** Datasets of the files of these claims. */
  #ofClaims(claims: readonly (string | undefined)[]): string[] {
    return this.#options.datasets
      .all()
      .filter((dataset) => {
        const claim = claimOfSource(dataset);
        return claim !== undefined && claims.includes(claim);
      })
      .map(objectKey);
  }

  #reported(cluster: string, before: ClusterStatus | undefined, after: ClusterStatus | undefined): string[] {
    // All agents may have restarted meanwhile, which loses the credentials.
    if (before?.connected !== after?.connected) return this.#credentialsLost(cluster, () => true);
    // Upgraded agents end the wait, and may have got credentials through an agent that drops those of mirrors.
    const upgraded = sameNodesWithout(before, after, mirrorsFeature)
      ? []
      : this.#credentialsLost(cluster, ({ spec }) => (spec.mirrors ?? []).length > 0);
    const laidOut = sameNodesWithout(before, after, hubLayoutFeature)
      ? []
      : this.#credentialsLost(cluster, ({ spec }) => spec.source.hub?.layout === 'hub');
    const ofVolumes = sameNodesWithout(before, after, volumeFeature)
      ? []
      : this.#keys(({ spec }) => spec.source.volume !== undefined);
    const names = new Set([...(before?.datasets.keys() ?? []), ...(after?.datasets.keys() ?? [])]);
    const reported = [...names].flatMap((name) => {
      if (isSameReport(before?.datasets.get(name), after?.datasets.get(name))) return [];
      const split = splitRegisteredName(name);
      return split === undefined ? [] : [`${split.namespace}/${split.name}`];
    });
    return [...upgraded, ...laidOut, ...ofVolumes, ...reported];
  }

  /** Marks the credentials of matching Datasets of a cluster for another transfer. Returns their keys. */
  #credentialsLost(cluster: string, concerned: (dataset: Dataset) => boolean): string[] {
    const keys = this.#keys((dataset) => {
      const { spec, status } = dataset;
      return (spec.clusterRef?.name ?? status?.cluster ?? cluster) === cluster && concerned(dataset);
    });
    for (const key of keys) this.#reconciler.credentialsLost(key);
    return keys;
  }

  #keys(concerned: (dataset: Dataset) => boolean): string[] {
    return this.#options.datasets.all().filter(concerned).map(objectKey);
  }
}

function clusterView({ metadata, spec }: StorageCluster): ClusterView {
  return { name: metadata.name, directoryPrefixes: spec.origins.directoryPrefixes };
}
