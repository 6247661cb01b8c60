import { HearthError } from '@hearth/common';
import {
  type EventRecorder,
  type KubernetesClient,
  kinds,
  type PersistentVolumeClaim,
} from '@hearth/common/kubernetes';
import { parseQuantity } from '@hearth/common/resources';
import type { Source } from '../kubernetes/index.ts';
import type { Reconciler } from '../reconciler/index.ts';
import type { ScratchVolumes } from './scratch_volumes.ts';
import { quantity, type VolumeView } from './volume_reconciler.ts';

/** The projection of a bound claim that asks for more than it has. */
export interface GrowingClaim {
  namespace: string;
  name: string;
  uid: string;
  volume: string;
  request: string;
}

/** Undefined for a claim that is not bound, has what it asks for, or is being deleted. */
export function growingClaim({ metadata, spec, status }: PersistentVolumeClaim): GrowingClaim | undefined {
  const request = spec?.resources?.requests?.storage;
  const capacity = status?.capacity?.storage;
  if (!spec?.volumeName || request === undefined || capacity === undefined) return undefined;
  if (metadata?.deletionTimestamp !== undefined || request === capacity) return undefined;
  const [asked, present] = [parseQuantity(request), parseQuantity(capacity)];
  if (asked !== undefined && present !== undefined && asked <= present) return undefined;
  const { namespace = '', name = '', uid = '' } = metadata ?? {};
  return { namespace, name, uid, volume: spec.volumeName, request };
}

export type GrowthAction =
  | { kind: 'grow'; volume: VolumeView; bytes: bigint }
  | { kind: 'report'; bytes: bigint }
  | { kind: 'refuse'; message: string };

/**
 * Pure. The steps of the external resizer for a driver that expands no file system on nodes: the volume, its object, and
 * then the size that the claim reports.
 */
export function planGrowth(claim: GrowingClaim, volume: VolumeView | undefined): GrowthAction[] {
  if (volume === undefined || !volume.provisioned || !volume.scratch || volume.deleting) return [];
  if (volume.claim !== `${claim.namespace}/${claim.name}`) return [];
  const bytes = parseQuantity(claim.request);
  if (bytes === undefined) {
    const message = `the storage request "${claim.request}" is not a whole number of bytes; write it as in 20Gi`;
    return [{ kind: 'refuse', message }];
  }
  const present = parseQuantity(volume.capacity);
  // The change of the object starts the next pass.
  if (present === undefined || present < bytes) return [{ kind: 'grow', volume, bytes }];
  return [{ kind: 'report', bytes: present }];
}

export interface GrowthReconcilerOptions {
  api: Pick<KubernetesClient, 'patch'>;
  events: Pick<EventRecorder, 'eventFor'>;
  volumes: Pick<Source<VolumeView | undefined>, 'get'>;
  scratch: Pick<ScratchVolumes, 'resize'>;
}

/** Grows scratch volumes to what their claims ask for. A pass may end anywhere: the next one repeats its steps. */
export class GrowthReconciler implements Reconciler<GrowingClaim, VolumeView | undefined, GrowthAction> {
  readonly plan = planGrowth;
  readonly #options: GrowthReconcilerOptions;

  constructor(options: GrowthReconcilerOptions) {
    this.#options = options;
  }

  async observe(claim: GrowingClaim): Promise<VolumeView | undefined> {
    return this.#options.volumes.get(claim.volume);
  }

  async apply(action: GrowthAction, claim: GrowingClaim, signal: AbortSignal): Promise<void> {
    try {
      await this.#apply(action, claim, signal);
    } catch (thrown) {
      if (!signal.aborted) this.#event(claim, 'Warning', 'VolumeResizeFailed', HearthError.from(thrown).message);
      throw thrown;
    }
  }

  async #apply(action: GrowthAction, claim: GrowingClaim, signal: AbortSignal): Promise<void> {
    const { api, scratch } = this.#options;
    switch (action.kind) {
      case 'refuse':
        this.#event(claim, 'Warning', 'VolumeResizeFailed', action.message);
        return;
      case 'grow': {
        const { name, uid, cluster } = action.volume;
        const bytes = await scratch.resize(cluster, name, action.bytes, signal);
        const patch = { metadata: { uid }, spec: { capacity: { storage: quantity(bytes) } } };
        await api.patch(kinds.PersistentVolume, name, undefined, patch, { kind: 'merge', signal });
        return;
      }
      case 'report': {
        const { namespace, name, uid } = claim;
        const storage = quantity(action.bytes);
        const patch = { metadata: { uid }, status: { capacity: { storage } } };
        const options = { kind: 'merge', subresource: 'status', signal } as const;
        await api.patch(kinds.PersistentVolumeClaim, name, namespace, patch, options);
        this.#event(claim, 'Normal', 'VolumeResizeSuccessful', `the volume takes ${storage}`);
        return;
      }
    }
  }

  #event({ namespace, name, uid }: GrowingClaim, type: 'Normal' | 'Warning', reason: string, message: string): void {
    const object = { metadata: { namespace, name, uid } };
    this.#options.events.eventFor(kinds.PersistentVolumeClaim, object, type, reason, message);
  }
}
