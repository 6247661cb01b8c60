import { type KubernetesClient, kinds, type PersistentVolume } from '@hearth/common/kubernetes';
import { agentTopologyKey, clusterTopologyKey, topologyValue } from '@hearth/common/names';
import { clusterLabel, driverName, finalizerName, registeredName } from '@hearth/common/resources';
import { type Uses, usesOfVolume } from '../dataset/index.ts';
import { type ClaimedVolume, claimedVolume, labelsOfOperator, volumeTerms } from '../kubernetes/index.ts';
import { hasFinalizer, type Reconciler, removeFinalizer } from '../reconciler/index.ts';
import type { VolumeRequest } from './claim_plan.ts';

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
export interface VolumeView extends ClaimedVolume {
  name: string;
  uid: string;
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
  const claimed = claimedVolume(object);
  if (claimed === undefined) return undefined;
  const { datasetNamespace = '', dataset = '', revision = '' } = spec?.csi?.volumeAttributes ?? {};
  return {
    name: metadata?.name ?? '',
    uid: metadata?.uid ?? '',
    ...claimed,
    dataset: registeredName(datasetNamespace, dataset),
    revision,
    phase: status?.phase ?? '',
    reclaimPolicy: spec?.persistentVolumeReclaimPolicy ?? 'Retain',
    provisioned: metadata?.annotations?.[provisionedByAnnotation] === driverName,
    hasAffinity: spec?.nodeAffinity !== undefined,
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

const provisionedByAnnotation = 'pv.kubernetes.io/provisioned-by';

type VolumeNodeAffinity = NonNullable<NonNullable<PersistentVolume['spec']>['nodeAffinity']>;

/** Pure. The PersistentVolume of a claim, the only record of the volume and the same for every attempt. */
export function persistentVolume(request: VolumeRequest): PersistentVolume {
  const { name, claim, storageClass, cluster, capacityBytes } = request;
  const { name: clusterName } = cluster.metadata;
  const volumeAttributes = {
    cluster: clusterName,
    datasetNamespace: claim.namespace,
    dataset: claim.source?.name ?? '',
  };
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: {
      name,
      annotations: { [provisionedByAnnotation]: driverName },
      labels: { ...labelsOfOperator('volume'), [clusterLabel]: clusterName },
    },
    spec: {
      capacity: { storage: quantity(capacityBytes) },
      accessModes: [...claim.accessModes],
      volumeMode: 'Filesystem',
      persistentVolumeReclaimPolicy: storageClass.reclaimPolicy,
      storageClassName: storageClass.name,
      mountOptions: [...storageClass.mountOptions],
      // The uid excludes other claims of this name.
      claimRef: {
        apiVersion: 'v1',
        kind: 'PersistentVolumeClaim',
        namespace: claim.namespace,
        name: claim.name,
        uid: claim.uid,
      },
      csi: { driver: driverName, volumeHandle: name, volumeAttributes },
      nodeAffinity: { required: { nodeSelectorTerms: volumeTerms(cluster) } },
    },
  };
}

/** Affinity to the nodes of a StorageCluster, which the operator labels; an empty name stands for any cluster. */
function affinityToCluster(cluster: string): VolumeNodeAffinity {
  const key = cluster === '' ? agentTopologyKey : clusterTopologyKey(cluster);
  const expression = { key, operator: 'In', values: [topologyValue] };
  return { required: { nodeSelectorTerms: [{ matchExpressions: [expression] }] } };
}

const units = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'];

export function quantity(bytes: bigint): string {
  let value = bytes;
  let unit = 0;
  while (value !== 0n && value % 1024n === 0n && unit < units.length - 1) {
    value /= 1024n;
    unit++;
  }
  return `${value}${units[unit]}`;
}
