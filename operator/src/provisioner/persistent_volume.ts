import type { PersistentVolume } from '@hearth/common/kubernetes';
import { agentTopologyKey, clusterTopologyKey, topologyValue } from '@hearth/common/names';
import { clusterLabel, driverName, finalizerName } from '@hearth/common/resources';
import type { VolumeRequest } from './claim_plan.ts';

export const provisionedByAnnotation = 'pv.kubernetes.io/provisioned-by';

type VolumeNodeAffinity = NonNullable<NonNullable<PersistentVolume['spec']>['nodeAffinity']>;

/** The CSI controller's answer to a request. */
export interface MadeVolume {
  volumeId: string;
  capacityBytes: bigint;
  volumeContext: Readonly<Record<string, string>>;
  /** Alternatives: topology segments of nodes on which the volume can be used. */
  accessibleTopology: readonly { segments: Readonly<Record<string, string>> }[];
}

/** The object by which a claim gets its volume. Pure: the same for every try. */
export function persistentVolume(request: VolumeRequest, made: MadeVolume): PersistentVolume {
  const { name, claim, storageClass, cluster } = request;
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: {
      name,
      annotations: { [provisionedByAnnotation]: driverName },
      labels: {
        'app.kubernetes.io/name': 'hearth',
        'app.kubernetes.io/component': 'volume',
        'app.kubernetes.io/managed-by': 'hearth-operator',
        [clusterLabel]: cluster,
      },
      finalizers: [finalizerName],
    },
    spec: {
      capacity: { storage: quantity(made.capacityBytes) },
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
      csi: { driver: driverName, volumeHandle: made.volumeId, volumeAttributes: { ...made.volumeContext } },
      ...nodeAffinity(made),
    },
  };
}

/** As the external provisioner translates topology. The terms name labels, which the operator keeps current on nodes. */
function nodeAffinity({ accessibleTopology }: MadeVolume): Pick<NonNullable<PersistentVolume['spec']>, 'nodeAffinity'> {
  return accessibleTopology.length === 0 ? {} : { nodeAffinity: affinityOf(accessibleTopology) };
}

/** The affinity of a volume to the nodes of its StorageCluster; '': of any. */
export function affinityToCluster(cluster: string): VolumeNodeAffinity {
  const key = cluster === '' ? agentTopologyKey : clusterTopologyKey(cluster);
  return affinityOf([{ segments: { [key]: topologyValue } }]);
}

function affinityOf(topology: MadeVolume['accessibleTopology']): VolumeNodeAffinity {
  const nodeSelectorTerms = topology.map(({ segments }) => ({
    matchExpressions: Object.entries(segments).map(([key, value]) => ({ key, operator: 'In', values: [value] })),
  }));
  return { required: { nodeSelectorTerms } };
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
