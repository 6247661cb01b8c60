import { isDeepStrictEqual } from 'node:util';
import type { Logger } from '@hearth/common';
import { type EventRecorder, type KubernetesClient, ownKey, runController, watch } from '@hearth/common/kubernetes';
import type { Dataset } from '@hearth/common/resources';
import type { Source } from '../kubernetes/index.ts';
import { findCondition, reconcileKey } from '../reconciler/index.ts';
import type { PendingClaim } from './claim.ts';
import { ClaimReconciler, datasetKey } from './claim_reconciler.ts';
import type { ClassView } from './storage_class.ts';
import type { VolumeView } from './volume_plan.ts';
import { VolumeReconciler } from './volume_reconciler.ts';

export interface ProvisionerOptions {
  api: Pick<KubernetesClient, 'get' | 'create' | 'delete' | 'patch'>;
  /** Projected by `pendingClaim`. */
  claims: Source<PendingClaim | undefined>;
  /** Projected by `classView`. */
  storageClasses: Source<ClassView | undefined>;
  /** Projected by `volumeView`. */
  volumes: Source<VolumeView | undefined>;
  datasets: Source<Dataset>;
  events: Pick<EventRecorder, 'eventFor'>;
  logger: Logger;
}

/** Makes, keeps and deletes volumes, on the leader only, until the signal aborts. The reflectors run already. */
export async function runProvisioner(options: ProvisionerOptions, signal: AbortSignal): Promise<void> {
  await Promise.all([runClaimController(options, signal), runVolumeController(options, signal)]);
}

async function runClaimController(options: ProvisionerOptions, signal: AbortSignal): Promise<void> {
  const { claims, storageClasses, datasets, logger } = options;
  const reconciler = new ClaimReconciler(options);
  const those = (concerned: (claim: PendingClaim) => boolean) =>
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
      watch(storageClasses, (name) => those((claim) => claim.storageClass === name)),
      watch(datasets, (key, before, after) =>
        isSame(before, after) ? [] : those((claim) => datasetKey(claim) === key),
      ),
    ],
    first: () => claims.keys(),
    reconcile: reconcileKey(reconciler, (key) => claims.get(key)),
    logger,
    signal,
  });
}

async function runVolumeController(options: ProvisionerOptions, signal: AbortSignal): Promise<void> {
  const { api, volumes, logger } = options;
  await runController({
    name: 'volumes',
    workers: 8,
    watches: [watch(volumes, ownKey)],
    first: () => volumes.keys(),
    reconcile: reconcileKey(new VolumeReconciler(api), (name) => volumes.get(name)),
    logger,
    signal,
  });
}

/** Figures of a Dataset change all the time, and no claim waits for them. */
function isSame(before: Dataset | undefined, after: Dataset | undefined): boolean {
  return isDeepStrictEqual(awaitedOf(before), awaitedOf(after));
}

/** The parts of a Dataset that a claim waits for. */
function awaitedOf(dataset: Dataset | undefined) {
  if (dataset === undefined) return undefined;
  const ready = findCondition(dataset.status?.conditions, 'Ready');
  const { cluster, manifest } = dataset.status ?? {};
  return [dataset.metadata.deletionTimestamp, ready?.status, ready?.reason, cluster, manifest];
}
