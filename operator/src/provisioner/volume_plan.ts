import type { PersistentVolume } from '@hearth/common/kubernetes';
import { driverName, finalizerName, parseQuantity, registeredName } from '@hearth/common/resources';
import { type Uses, usesOfVolume } from '../dataset/index.ts';
import { provisionedByAnnotation } from './persistent_volume.ts';

/** The kept part of a PersistentVolume of the driver. */
export interface VolumeView {
  name: string;
  uid: string;
  handle: string;
  /** '' when its attributes name none. So is what follows. */
  cluster: string;
  /** As agents know it: `NAMESPACE.NAME`. */
  dataset: string;
  /** Digest of the manifest that it keeps to. */
  revision: string;
  capacityBytes: bigint;
  phase: string;
  reclaimPolicy: string;
  /** Made by the provisioner; others are their administrator's. */
  provisioned: boolean;
  hasFinalizer: boolean;
  /** The operator of a release before made volumes without; what has one cannot be changed. */
  hasAffinity: boolean;
  deleting: boolean;
  uses: Uses;
}

/** The projection of the reflector: undefined for volumes of other drivers. */
export function volumeView(object: PersistentVolume): VolumeView | undefined {
  const { metadata, spec, status } = object;
  if (spec?.csi?.driver !== driverName) return undefined;
  const { cluster = '', datasetNamespace = '', dataset = '', revision = '' } = spec.csi.volumeAttributes ?? {};
  return {
    name: metadata?.name ?? '',
    uid: metadata?.uid ?? '',
    handle: spec.csi.volumeHandle,
    cluster,
    dataset: registeredName(datasetNamespace, dataset),
    revision,
    capacityBytes: parseQuantity(spec.capacity?.storage ?? '') ?? 0n,
    phase: status?.phase ?? '',
    reclaimPolicy: spec.persistentVolumeReclaimPolicy ?? 'Retain',
    provisioned: metadata?.annotations?.[provisionedByAnnotation] === driverName,
    hasAffinity: spec.nodeAffinity !== undefined,
    hasFinalizer: metadata?.finalizers?.includes(finalizerName) ?? false,
    deleting: metadata?.deletionTimestamp !== undefined,
    uses: usesOfVolume(object),
  };
}

export type VolumeAction =
  /** So that pods with its claim are scheduled only where it can be used. */
  | { kind: 'addAffinity' }
  /** Its record at the agents is made when it is not there: their store may be new. */
  | { kind: 'ensureVolume' }
  /** Its record at the agents. The dataset and its bytes stay. */
  | { kind: 'deleteVolume' }
  | { kind: 'deleteObject' }
  | { kind: 'removeFinalizer' };

/**
 * Pure. What is to be done about a volume, in order. A volume is deleted only when its claim has gone and the
 * reclaim policy says so; one that is deleted by hand keeps its finalizer until its claim has gone.
 */
export function planVolume(volume: VolumeView | undefined): VolumeAction[] {
  if (volume === undefined || !volume.provisioned) return [];
  const { phase, reclaimPolicy, deleting, hasFinalizer, hasAffinity } = volume;
  if (deleting && !hasFinalizer) return [];
  switch (phase) {
    case 'Bound':
      if (deleting) return [];
      return [...(hasAffinity ? [] : [{ kind: 'addAffinity' } as const]), { kind: 'ensureVolume' }];
    case 'Released':
      break;
    case 'Available':
    case 'Failed':
      if (!deleting) return [];
      break;
    default:
      return [];
  }
  const end: VolumeAction[] = deleting ? [{ kind: 'removeFinalizer' }] : [{ kind: 'deleteObject' }];
  if (reclaimPolicy === 'Delete') return [{ kind: 'deleteVolume' }, ...end];
  return deleting ? end : [];
}
