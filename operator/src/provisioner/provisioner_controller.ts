import { isDeepStrictEqual } from 'node:util';
import type { Logger } from '@hearth/common';
import { type EventRecorder, type KubernetesClient, runController, WorkQueue } from '@hearth/common/kubernetes';
import type { Dataset, StorageCluster } from '@hearth/common/resources';
import type { Agents } from '../agents/index.ts';
import type { Source } from '../kubernetes/index.ts';
import type { PendingClaim } from './claim.ts';
import { ClaimReconciler } from './claim_reconciler.ts';
import type { ClassView } from './storage_class.ts';
import type { VolumeView } from './volume_plan.ts';
import { VolumeReconciler } from './volume_reconciler.ts';
import { AgentVolumes } from './volumes.ts';

export interface ProvisionerOptions {
  api: Pick<KubernetesClient, 'get' | 'create' | 'delete' | 'patch'>;
  agents: Pick<Agents, 'get'>;
  /** Projected by `pendingClaim`. */
  claims: Source<PendingClaim | undefined>;
  /** Projected by `classView`. */
  storageClasses: Source<ClassView | undefined>;
  /** Projected by `volumeView`. */
  volumes: Source<VolumeView | undefined>;
  datasets: Source<Dataset>;
  clusters: Source<StorageCluster>;
  events: Pick<EventRecorder, 'eventFor'>;
  logger: Logger;
  workers?: number;
}

/** Makes, keeps and deletes volumes, on the leader only, until the signal aborts. The reflectors run already. */
export async function runProvisioner(options: ProvisionerOptions, signal: AbortSignal): Promise<void> {
  await new Provisioner(options).run(signal);
}

class Provisioner {
  readonly #options: ProvisionerOptions;
  readonly #claimQueue = new WorkQueue({ firstDelayMs: 500, longestDelayMs: 60_000 });
  readonly #volumeQueue = new WorkQueue({ firstDelayMs: 500, longestDelayMs: 60_000 });
  readonly #claims: ClaimReconciler;
  readonly #volumes: VolumeReconciler;

  constructor(options: ProvisionerOptions) {
    this.#options = options;
    const { api, events } = options;
    const volumes = new AgentVolumes(options.agents);
    this.#claims = new ClaimReconciler({
      api,
      events,
      volumes,
      claim: (key) => options.claims.get(key),
      storageClass: (name) => options.storageClasses.get(name),
      dataset: (key) => options.datasets.get(key),
    });
    this.#volumes = new VolumeReconciler({
      api,
      events,
      volumes,
      volume: (name) => options.volumes.get(name),
      hasCluster: (name) => options.clusters.get(name) !== undefined,
    });
  }

  async run(signal: AbortSignal): Promise<void> {
    const { claims, storageClasses, volumes, datasets, clusters, logger, workers = 8 } = this.#options;
    const stops = [
      claims.onChange((key, before, after) => this.#claimChanged(key, before, after)),
      storageClasses.onChange((name) => this.#addClaims((claim) => claim.storageClass === name)),
      datasets.onChange((key, before, after) => this.#datasetChanged(key, before, after)),
      volumes.onChange((name) => this.#volumeQueue.add(name)),
      clusters.onChange((_, before, after) => {
        if (before === undefined || after === undefined) for (const name of volumes.keys()) this.#volumeQueue.add(name);
      }),
    ];
    try {
      await Promise.all([claims, storageClasses, volumes, datasets, clusters].map((source) => source.synced()));
      for (const key of claims.keys()) this.#claimQueue.add(key);
      for (const name of volumes.keys()) this.#volumeQueue.add(name);
      const common = { workers, logger, signal };
      await Promise.all([
        runController({
          ...common,
          name: 'claims',
          queue: this.#claimQueue,
          reconcile: (key, passSignal) => this.#claims.reconcile(key, passSignal),
        }),
        runController({
          ...common,
          name: 'volumes',
          queue: this.#volumeQueue,
          reconcile: (name, passSignal) => this.#volumes.reconcile(name, passSignal),
        }),
      ]);
    } finally {
      for (const stop of stops) stop();
    }
  }

  #claimChanged(key: string, before: PendingClaim | undefined, after: PendingClaim | undefined): void {
    if (after !== undefined) this.#claimQueue.add(key);
    else if (before !== undefined) this.#claims.forget(before.uid);
  }

  /** Its figures change all the time, and no claim waits for them. */
  #datasetChanged(key: string, before: Dataset | undefined, after: Dataset | undefined): void {
    if (isDeepStrictEqual(awaitedOf(before), awaitedOf(after))) return;
    this.#addClaims((claim) => ClaimReconciler.datasetKey(claim) === key);
    // One that becomes Ready may have been forgotten by the agents, and its volumes with it.
    for (const volume of this.#options.volumes.all()) {
      if (volume?.uses.has(key)) this.#volumeQueue.add(volume.name);
    }
  }

  #addClaims(concerned: (claim: PendingClaim) => boolean): void {
    for (const key of this.#options.claims.keys()) {
      const claim = this.#options.claims.get(key);
      if (claim !== undefined && concerned(claim)) this.#claimQueue.add(key);
    }
  }
}

/** What a claim waits for in a Dataset. */
function awaitedOf(dataset: Dataset | undefined) {
  if (dataset === undefined) return undefined;
  const ready = dataset.status?.conditions?.find((one) => one.type === 'Ready');
  const { cluster, manifest } = dataset.status ?? {};
  return [dataset.metadata.deletionTimestamp, ready?.status, ready?.reason, cluster, manifest];
}
