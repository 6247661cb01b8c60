import type { PersistentVolume } from '@hearth/common/kubernetes';
import { agentTopologyKey, clusterTopologyKey, topologyValue } from '@hearth/common/names';
import { clusterLabel, driverName } from '@hearth/common/resources';
import { labelsOfOperator } from '../kubernetes/index.ts';
import type { VolumeRequest } from './claim_plan.ts';

export const provisionedByAnnotation = 'pv.kubernetes.io/provisioned-by';

type VolumeNodeAffinity = NonNullable<NonNullable<PersistentVolume['spec']>['nodeAffinity']>;

/** Pure. The PersistentVolume of a claim, the only record of the volume and the same for every attempt. */
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
      // The uid excludes other claims of this name.
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

/** Affinity to the nodes of a StorageCluster, which the operator labels; an empty name stands for any cluster. */
export function affinityToCluster(cluster: string): VolumeNodeAffinity {
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
