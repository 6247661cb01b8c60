import { HearthError } from '@hearth/common';
import {
  type EventRecorder,
  type KubernetesClient,
  kinds,
  type PersistentVolume,
  type PersistentVolumeClaim,
} from '@hearth/common/kubernetes';
import type { Dataset } from '@hearth/common/resources';
import { type PendingClaim, pendingClaim } from './claim.ts';
import { planClaim, type VolumeRequest } from './claim_plan.ts';
import { persistentVolume } from './persistent_volume.ts';
import type { ClassView } from './storage_class.ts';
import type { Volumes } from './volumes.ts';

export interface ClaimReconcilerOptions {
  api: Pick<KubernetesClient, 'get' | 'create'>;
  events: Pick<EventRecorder, 'eventFor'>;
  volumes: Volumes;
  claim(key: string): PendingClaim | undefined;
  storageClass(name: string): ClassView | undefined;
  dataset(key: string): Dataset | undefined;
}

/** Makes volumes for claims. Every step may be the last one before a crash: the next pass comes to the same volume. */
export class ClaimReconciler {
  readonly #options: ClaimReconcilerOptions;
  /** What was said last of a claim that waits, so that it is said once. By uid. */
  readonly #reported = new Map<string, string>();

  constructor(options: ClaimReconcilerOptions) {
    this.#options = options;
  }

  /** Key of the Dataset that a claim wants. */
  static datasetKey(claim: PendingClaim): string | undefined {
    return claim.source === undefined ? undefined : `${claim.namespace}/${claim.source.name}`;
  }

  async reconcile(key: string, signal: AbortSignal): Promise<void> {
    const claim = this.#options.claim(key);
    const datasetKey = claim === undefined ? undefined : ClaimReconciler.datasetKey(claim);
    const dataset = datasetKey === undefined ? undefined : this.#options.dataset(datasetKey);
    const plan = planClaim(claim, this.#options.storageClass(claim?.storageClass ?? ''), dataset);
    switch (plan.kind) {
      case 'none':
        return;
      case 'wait':
        return this.#report(claim, plan.type, plan.reason, plan.message);
      case 'provision':
        return await this.#provision(plan.request, signal);
    }
  }

  /** The claim has a volume, or is gone. */
  forget(uid: string): void {
    this.#reported.delete(uid);
  }

  async #provision(request: VolumeRequest, signal: AbortSignal): Promise<void> {
    const { claim } = request;
    try {
      const made = await this.#options.volumes.create(request, signal);
      if (!(await this.#stillWanted(claim, signal))) {
        await this.#options.volumes.delete(request.cluster, made.volumeId, signal);
        return;
      }
      await this.#createObject(persistentVolume(request, made), claim, signal);
    } catch (thrown) {
      if (signal.aborted) throw thrown;
      this.#report(claim, 'Warning', 'ProvisioningFailed', HearthError.from(thrown).message);
      throw thrown;
    }
    this.forget(claim.uid);
    this.#event(claim, 'Normal', 'ProvisioningSucceeded', `made volume ${request.name}`);
  }

  /** What the reflector has may be a moment old: a volume for a claim that has gone would never be released. */
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

  #report(claim: PendingClaim | undefined, type: 'Normal' | 'Warning', reason: string, message: string): void {
    if (claim === undefined) return;
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
