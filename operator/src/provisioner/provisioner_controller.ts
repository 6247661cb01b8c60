import { isDeepStrictEqual } from 'node:util';
import type { Logger } from '@hearth/common';
import { type EventRecorder, type KubernetesClient, ownKey, runController, watch } from '@hearth/common/kubernetes';
import type { Dataset, StorageCluster } from '@hearth/common/resources';
import type { Agents } from '../agents/index.ts';
import type { Source } from '../kubernetes/index.ts';
import { findCondition, reconcileKey } from '../reconciler/index.ts';
import type { ClassView, PendingClaim } from './claim.ts';
import { type GrowingClaim, GrowthReconciler } from './claim_growth.ts';
import { ClaimReconciler, datasetKey } from './claim_reconciler.ts';
import { ScratchVolumes } from './scratch_volumes.ts';
import { VolumeReconciler, type VolumeView } from './volume_reconciler.ts';

export interface ProvisionerOptions {
  api: Pick<KubernetesClient, 'get' | 'create' | 'delete' | 'patch'>;
  agents: Pick<Agents, 'get'>;
  claims: Source<PendingClaim | undefined>;
  growing: Source<GrowingClaim | undefined>;
  storageClasses: Source<ClassView | undefined>;
  volumes: Source<VolumeView | undefined>;
  datasets: Source<Dataset>;
  clusters: Source<StorageCluster>;
  events: Pick<EventRecorder, 'eventFor'>;
  logger: Logger;
}

/** Runs on the leader only, until the signal aborts. The reflectors must run already. */
export async function runProvisioner(options: ProvisionerOptions, signal: AbortSignal): Promise<void> {
  await Promise.all([
    runClaimController(options, signal),
    runGrowthController(options, signal),
    runVolumeController(options, signal),
  ]);
}

async function runClaimController(options: ProvisionerOptions, signal: AbortSignal): Promise<void> {
  const { claims, storageClasses, datasets, clusters, agents, logger } = options;
  const reconciler = new ClaimReconciler({ ...options, scratch: new ScratchVolumes(agents) });
  const keysWhere = (concerned: (claim: PendingClaim) => boolean) =>
    claims.keys().filter((key) => {
      const claim = claims.get(key);
      return claim !== undefined && concerned(claim);
    });
  await runController({
    name: 'claims',
    workers: 8,
    watches: [
      watch(claims, (key, before, after) => {
        if (after !== undefined) return [key];
        if (before !== undefined) reconciler.forget(before.uid);
        return [];
      }),
      watch(storageClasses, (name) => keysWhere((claim) => claim.storageClass === name)),
      watch(datasets, (key, before, after) =>
        isDeepStrictEqual(awaitedOf(before), awaitedOf(after)) ? [] : keysWhere((claim) => datasetKey(claim) === key),
      ),
      watch(clusters, (_name, before, after) =>
        before?.status?.nodesDesired === after?.status?.nodesDesired ? [] : keysWhere(() => true),
      ),
    ],
    first: () => claims.keys(),
    reconcile: reconcileKey(reconciler, (key) => claims.get(key)),
    logger,
    signal,
  });
}

async function runGrowthController(options: ProvisionerOptions, signal: AbortSignal): Promise<void> {
  const { growing, volumes, agents, logger } = options;
  const reconciler = new GrowthReconciler({ ...options, scratch: new ScratchVolumes(agents) });
  await runController({
    name: 'growing-claims',
    workers: 4,
    watches: [
      watch(growing, ownKey),
      // The claim may be seen before its volume.
      watch(volumes, (name) => growing.keys().filter((key) => growing.get(key)?.volume === name)),
    ],
    first: () => growing.keys(),
    reconcile: reconcileKey(reconciler, (key) => growing.get(key)),
    logger,
    signal,
  });
}

async function runVolumeController(options: ProvisionerOptions, signal: AbortSignal): Promise<void> {
  const { volumes, agents, logger } = options;
  const reconciler = new VolumeReconciler({ ...options, scratch: new ScratchVolumes(agents) });
  await runController({
    name: 'volumes',
    workers: 8,
    watches: [watch(volumes, ownKey)],
    first: () => volumes.keys(),
    reconcile: reconcileKey(reconciler, (name) => volumes.get(name)),
    logger,
    signal,
  });
}

/** Claims do not wait for figures of a Dataset. */
function awaitedOf(dataset: Dataset | undefined) {
  if (dataset === undefined) return undefined;
  const ready = findCondition(dataset.status?.conditions, 'Ready');
  const { cluster, manifest } = dataset.status ?? {};
  return [dataset.metadata.deletionTimestamp, ready?.status, ready?.reason, cluster, manifest];
}
