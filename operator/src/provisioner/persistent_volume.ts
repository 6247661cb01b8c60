import type { PersistentVolume } from '@hearth/common/kubernetes';
import { agentTopologyKey, clusterTopologyKey, topologyValue } from '@hearth/common/names';
import { clusterLabel, driverName } from '@hearth/common/resources';
import { labelsOfOperator } from '../kubernetes/index.ts';
import type { VolumeRequest } from './claim_plan.ts';

export const provisionedByAnnotation = 'pv.kubernetes.io/provisioned-by';

type VolumeNodeAffinity = NonNullable<NonNullable<PersistentVolume['spec']>['nodeAffinity']>;

/** Pure. The object by which a claim gets its volume: the only record of it, and the same for every try. */
export function persistentVolume(request: VolumeRequest): PersistentVolume {
  const { name, claim, storageClass, cluster, capacityBytes } = request;
  const volumeAttributes = { cluster, datasetNamespace: claim.namespace, dataset: claim.source?.name ?? '' };
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: {
      name,
      annotations: { [provisionedByAnnotation]: driverName },
      labels: { ...labelsOfOperator('volume'), [clusterLabel]: cluster },
    },
    spec: {
      capacity: { storage: quantity(capacityBytes) },
      accessModes: [...claim.accessModes],
      volumeMode: 'Filesystem',
      persistentVolumeReclaimPolicy: storageClass.reclaimPolicy,
      storageClassName: storageClass.name,
      mountOptions: [...storageClass.mountOptions],
      // With the uid no other claim of that name can get it.
      claimRef: {
        apiVersion: 'v1',
        kind: 'PersistentVolumeClaim',
        namespace: claim.namespace,
        name: claim.name,
        uid: claim.uid,
      },
      csi: { driver: driverName, volumeHandle: name, volumeAttributes },
      nodeAffinity: affinityToCluster(cluster),
    },
  };
}

/** The affinity of a volume to the nodes of its StorageCluster, whose labels the operator keeps current; '': of any. */
export function affinityToCluster(cluster: string): VolumeNodeAffinity {
  const key = cluster === '' ? agentTopologyKey : clusterTopologyKey(cluster);
  const expression = { key, operator: 'In', values: [topologyValue] };
  return { required: { nodeSelectorTerms: [{ matchExpressions: [expression] }] } };
}

const units = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'];

/** Exactly these bytes, in the largest unit that has them whole. */
export function quantity(bytes: bigint): string {
  let value = bytes;
  let unit = 0;
  while (value !== 0n && value % 1024n === 0n && unit < units.length - 1) {
    value /= 1024n;
    unit++;
  }
  return `${value}${units[unit]}`;
}
