import { HearthError } from '@hearth/common';
import { type EventRecorder, type KubernetesClient, kinds, type PersistentVolume } from '@hearth/common/kubernetes';
import { agentTopologyKey, clusterTopologyKey, topologyValue } from '@hearth/common/names';
import {
  clusterLabel,
  driverName,
  finalizerName,
  logNodeAnnotation,
  registeredName,
  type StorageCluster,
} from '@hearth/common/resources';
import { type Uses, usesOfVolume } from '../dataset/index.ts';
import { type ClaimedVolume, claimedVolume, labelsOfOperator, type Source, volumeTerms } from '../kubernetes/index.ts';
import { hasFinalizer, type Reconciler, removeFinalizer } from '../reconciler/index.ts';
import type { VolumeRequest } from './claim_plan.ts';
import type { ScratchVolumes } from './scratch_volumes.ts';

export interface VolumeReconcilerOptions {
  api: Pick<KubernetesClient, 'get' | 'delete' | 'patch'>;
  clusters: Pick<Source<StorageCluster>, 'get'>;
  scratch: Pick<ScratchVolumes, 'delete'>;
  events: Pick<EventRecorder, 'eventFor'>;
}

/** Deletes released volumes, scratch volumes with their files, and adds affinities to volumes of the previous release. */
export class VolumeReconciler implements Reconciler<VolumeView, undefined, VolumeAction> {
  readonly plan = planVolume;
  readonly #options: VolumeReconcilerOptions;

  constructor(options: VolumeReconcilerOptions) {
    this.#options = options;
  }

  async observe(): Promise<undefined> {}

  async apply(action: VolumeAction, volume: VolumeView, signal: AbortSignal): Promise<void> {
    const { name, uid, cluster } = volume;
    const { api } = this.#options;
    switch (action) {
      case 'addAffinity': {
        const patch = { metadata: { uid }, spec: { nodeAffinity: affinityToCluster(cluster) } };
        await api.patch(kinds.PersistentVolume, name, undefined, patch, { kind: 'merge', signal });
        return;
      }
      case 'deleteFiles':
        await this.#deleteFiles(volume, signal);
        return;
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

  /** Nothing is left of a volume whose StorageCluster has gone. */
  async #deleteFiles({ name, uid, cluster }: VolumeView, signal: AbortSignal): Promise<void> {
    const { clusters, scratch, events } = this.#options;
    if (clusters.get(cluster) === undefined) return;
    try {
      await scratch.delete(cluster, name, signal);
    } catch (thrown) {
      const { message } = HearthError.from(thrown);
      const object = { metadata: { name, uid } };
      if (!signal.aborted) events.eventFor(kinds.PersistentVolume, object, 'Warning', 'VolumeFailedDelete', message);
      throw thrown;
    }
  }
}

/** The projection of a PersistentVolume. Absent attributes are empty. */
export interface VolumeView extends ClaimedVolume {
  name: string;
  uid: string;
  dataset: string;
  revision: string;
  /** An empty volume of the agents under the name of this object. */
  scratch: boolean;
  /** The node that has the log of a scratch volume; empty: not recorded. */
  logNode: string;
  phase: string;
  /** The size, in the spelling of the object. */
  capacity: string;
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
  const { datasetNamespace = '', dataset = '', revision = '', volume } = spec?.csi?.volumeAttributes ?? {};
  return {
    name: metadata?.name ?? '',
    uid: metadata?.uid ?? '',
    ...claimed,
    dataset: registeredName(datasetNamespace, dataset),
    revision,
    scratch: volume !== undefined && volume === metadata?.name,
    logNode: metadata?.annotations?.[logNodeAnnotation] ?? '',
    phase: status?.phase ?? '',
    capacity: spec?.capacity?.storage ?? '',
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
  'addAffinity' | 'deleteObject' | 'deleteFiles' | 'removeFinalizer';

/**
 * Pure. Deletes a released volume as its reclaim policy says. A volume deleted by hand keeps the finalizer, which scratch
 * volumes and those of the previous release have, until its claim is gone.
 */
export function planVolume(volume: VolumeView): VolumeAction[] {
  const { provisioned, scratch, phase, reclaimPolicy, deleting, hasFinalizer, hasAffinity } = volume;
  if (!provisioned) return [];
  if (deleting) {
    const isUnused = phase === 'Released' || phase === 'Available' || phase === 'Failed';
    if (!isUnused || !hasFinalizer) return [];
    return scratch && reclaimPolicy === 'Delete' ? ['deleteFiles', 'removeFinalizer'] : ['removeFinalizer'];
  }
  if (phase === 'Bound') return hasAffinity ? [] : ['addAffinity'];
  return phase === 'Released' && reclaimPolicy === 'Delete' ? ['deleteObject'] : [];
}

const provisionedByAnnotation = 'pv.kubernetes.io/provisioned-by';

type VolumeNodeAffinity = NonNullable<NonNullable<PersistentVolume['spec']>['nodeAffinity']>;

/**
 * Pure. The PersistentVolume of a claim, the same for every attempt. `logNode`: the node that has the log of a scratch
 * volume.
 */
export function persistentVolume(request: VolumeRequest, logNode?: string): PersistentVolume {
  const { name, claim, storageClass, cluster, capacityBytes, scratch } = request;
  const { name: clusterName } = cluster.metadata;
  const volumeAttributes: Record<string, string> = scratch
    ? { cluster: clusterName, volume: name }
    : { cluster: clusterName, datasetNamespace: claim.namespace, dataset: claim.source?.name ?? '' };
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: {
      name,
      annotations: {
        [provisionedByAnnotation]: driverName,
        ...(logNode === undefined ? {} : { [logNodeAnnotation]: logNode }),
      },
      labels: { ...labelsOfOperator('volume'), [clusterLabel]: clusterName },
      ...(scratch ? { finalizers: [finalizerName] } : {}),
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
