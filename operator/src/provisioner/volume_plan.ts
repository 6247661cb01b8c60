import type { PersistentVolume } from '@hearth/common/kubernetes';
import { driverName, finalizerName, registeredName } from '@hearth/common/resources';
import { type Uses, usesOfVolume } from '../dataset/index.ts';
import { provisionedByAnnotation } from './persistent_volume.ts';

/** The kept part of a PersistentVolume of the driver. */
export interface VolumeView {
  name: string;
  uid: string;
  /** '' when its attributes name none. So is what follows. */
  cluster: string;
  /** As agents know it: `NAMESPACE.NAME`. */
  dataset: string;
  /** Digest of the manifest that it keeps to. */
  revision: string;
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
    cluster,
    dataset: registeredName(datasetNamespace, dataset),
    revision,
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
  'addAffinity' | 'deleteObject' | 'removeFinalizer';

/**
 * Pure. What is to be done about a volume. A volume is deleted only when its claim has gone and the reclaim policy says
 * so; one that is deleted by hand keeps the finalizer that an earlier release gave it until its claim has gone.
 */
export function planVolume(volume: VolumeView): VolumeAction[] {
  const { provisioned, phase, reclaimPolicy, deleting, hasFinalizer, hasAffinity } = volume;
  if (!provisioned) return [];
  if (deleting) {
    const isUnused = phase === 'Released' || phase === 'Available' || phase === 'Failed';
    return isUnused && hasFinalizer ? ['removeFinalizer'] : [];
  }
  if (phase === 'Bound') return hasAffinity ? [] : ['addAffinity'];
  return phase === 'Released' && reclaimPolicy === 'Delete' ? ['deleteObject'] : [];
}
