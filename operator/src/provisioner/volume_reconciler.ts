import { type KubernetesClient, kinds, type PersistentVolume } from '@hearth/common/kubernetes';
import { driverName, finalizerName, registeredName } from '@hearth/common/resources';
import { type Uses, usesOfVolume } from '../dataset/index.ts';
import { hasFinalizer, type Reconciler, removeFinalizer } from '../reconciler/index.ts';
import { affinityToCluster, provisionedByAnnotation } from './persistent_volume.ts';

type Api = Pick<KubernetesClient, 'get' | 'delete' | 'patch'>;

/** Deletes released volumes, and adds affinities to volumes of the previous release. */
export class VolumeReconciler implements Reconciler<VolumeView, undefined, VolumeAction> {
  readonly plan = planVolume;
  readonly #api: Api;

  constructor(api: Api) {
    this.#api = api;
  }

  async observe(): Promise<undefined> {}

  async apply(action: VolumeAction, { name, uid, cluster }: VolumeView, signal: AbortSignal): Promise<void> {
    const api = this.#api;
    switch (action) {
      case 'addAffinity': {
        const patch = { metadata: { uid }, spec: { nodeAffinity: affinityToCluster(cluster) } };
        await api.patch(kinds.PersistentVolume, name, undefined, patch, { kind: 'merge', signal });
        return;
      }
      case 'deleteObject':
        await api.delete(kinds.PersistentVolume, name, undefined, { preconditions: { uid }, signal });
        return;
      case 'removeFinalizer': {
        const present = await api.get(kinds.PersistentVolume, name, undefined, signal);
        if (present?.metadata?.uid !== uid || !hasFinalizer(present)) return;
        await removeFinalizer(api, kinds.PersistentVolume, present, signal);
        return;
      }
    }
  }
}

/** The projection of a PersistentVolume. Absent attributes are empty. */
export interface VolumeView {
  name: string;
  uid: string;
  cluster: string;
  dataset: string;
  revision: string;
  phase: string;
  reclaimPolicy: string;
  /** False for volumes of an administrator. */
  provisioned: boolean;
  hasFinalizer: boolean;
  /** Volumes of the previous release lack an affinity. A present one is immutable. */
  hasAffinity: boolean;
  deleting: boolean;
  uses: Uses;
}

/** Undefined for other drivers. */
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

type VolumeAction =
  /** Restricts pods to nodes that can use the volume. */
  'addAffinity' | 'deleteObject' | 'removeFinalizer';

/**
 * Pure. Deletes a released volume as its reclaim policy says. A volume deleted by hand keeps the finalizer of the
 * previous release until its claim is gone.
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
