import { HearthError } from '@hearth/common';
import {
  type EventRecorder,
  type KubernetesClient,
  kinds,
  type PersistentVolume,
  type PersistentVolumeClaim,
} from '@hearth/common/kubernetes';
import type { Dataset, StorageCluster } from '@hearth/common/resources';
import type { Source } from '../kubernetes/index.ts';
import type { Reconciler } from '../reconciler/index.ts';
import { type ClassView, type PendingClaim, pendingClaim } from './claim.ts';
import { type ClaimPlan, planClaim, type VolumeRequest } from './claim_plan.ts';
import type { ScratchVolumes } from './scratch_volumes.ts';
import { persistentVolume } from './volume_reconciler.ts';

export interface ClaimReconcilerOptions {
  api: Pick<KubernetesClient, 'get' | 'create'>;
  events: Pick<EventRecorder, 'eventFor'>;
  storageClasses: Pick<Source<ClassView | undefined>, 'get'>;
  datasets: Pick<Source<Dataset>, 'get'>;
  clusters: Pick<Source<StorageCluster>, 'all'>;
  scratch: Pick<ScratchVolumes, 'create'>;
}

export type ObservedClaim = {
  storageClass: ClassView | undefined;
  dataset: Dataset | undefined;
  clusters: readonly StorageCluster[];
};

type ClaimAction = Exclude<ClaimPlan, { kind: 'none' }>;

/** Creates volumes for claims. A pass may end anywhere: the next one creates the same volume. */
export class ClaimReconciler implements Reconciler<PendingClaim, ObservedClaim, ClaimAction> {
  readonly #options: ClaimReconcilerOptions;
  /** The last event of each waiting claim, by uid; each event is sent once. */
  readonly #reported = new Map<string, string>();

  constructor(options: ClaimReconcilerOptions) {
    this.#options = options;
  }

  async observe(claim: PendingClaim): Promise<ObservedClaim> {
    const { storageClasses, datasets, clusters } = this.#options;
    const dataset = datasets.get(datasetKey(claim) ?? '');
    return { storageClass: storageClasses.get(claim.storageClass), dataset, clusters: clusters.all() };
  }

  plan(claim: PendingClaim, { storageClass, dataset, clusters }: ObservedClaim): ClaimAction[] {
    const plan = planClaim(claim, storageClass, dataset, clusters);
    return plan.kind === 'none' ? [] : [plan];
  }

  async apply(action: ClaimAction, claim: PendingClaim, signal: AbortSignal): Promise<void> {
    if (action.kind === 'provision') await this.#provision(action.request, signal);
    else this.#report(claim, action.type, action.reason, action.message);
  }

  forget(uid: string): void {
    this.#reported.delete(uid);
  }

  async #provision(request: VolumeRequest, signal: AbortSignal): Promise<void> {
    const { claim } = request;
    try {
      if (!(await this.#stillWanted(claim, signal))) return;
      const logNode = request.scratch ? await this.#options.scratch.create(request, signal) : undefined;
      await this.#createObject(persistentVolume(request, logNode), claim, signal);
    } catch (thrown) {
      if (signal.aborted) throw thrown;
      this.#report(claim, 'Warning', 'ProvisioningFailed', HearthError.from(thrown).message);
      throw thrown;
    }
    this.forget(claim.uid);
    this.#event(claim, 'Normal', 'ProvisioningSucceeded', `the operator made volume ${request.name}`);
  }

  /** The reflector may lag: a volume for a deleted claim would never be released. */
  async #stillWanted(claim: PendingClaim, signal: AbortSignal): Promise<boolean> {
    const present = await this.#options.api.get(kinds.PersistentVolumeClaim, claim.name, claim.namespace, signal);
    return present?.metadata?.uid === claim.uid && pendingClaim(present) !== undefined;
  }

  async #createObject(object: PersistentVolume, claim: PendingClaim, signal: AbortSignal): Promise<void> {
    try {
      await this.#options.api.create(kinds.PersistentVolume, object, signal);
    } catch (thrown) {
      if (HearthError.from(thrown).code !== 'AlreadyExists') throw thrown;
      const name = object.metadata?.name ?? '';
      const present = await this.#options.api.get(kinds.PersistentVolume, name, undefined, signal);
      if (present?.spec?.claimRef?.uid === claim.uid) return;
      throw new HearthError(
        'AlreadyExists',
        `the PersistentVolume ${name} belongs to something else; delete it: kubectl delete pv ${name}`,
      );
    }
  }

  #report(claim: PendingClaim, type: 'Normal' | 'Warning', reason: string, message: string): void {
    const text = `${reason}: ${message}`;
    if (this.#reported.get(claim.uid) === text) return;
    this.#reported.set(claim.uid, text);
    this.#event(claim, type, reason, message);
  }

  #event({ uid, name, namespace }: PendingClaim, type: 'Normal' | 'Warning', reason: string, message: string): void {
    const object: PersistentVolumeClaim = { metadata: { name, namespace, uid } };
    this.#options.events.eventFor(kinds.PersistentVolumeClaim, object, type, reason, message);
  }
}

export function datasetKey({ namespace, source }: PendingClaim): string | undefined {
  return source && `${namespace}/${source.name}`;
}
