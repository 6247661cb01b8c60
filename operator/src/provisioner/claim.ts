import type { PersistentVolumeClaim } from '@hearth/common/kubernetes';

/** The kept part of a claim that has no volume yet. */
export interface PendingClaim {
  namespace: string;
  name: string;
  uid: string;
  storageClass: string;
  /** The provisioner that the control plane chose for it; '' as long as it has chosen none. */
  provisioner: string;
  /** Node of the first pod that wants it, of a class that waits for one; '' as long as there is none. */
  selectedNode: string;
  source: { apiGroup: string; kind: string; name: string; namespace: string } | undefined;
  /** As Kubernetes spells quantities. */
  request: string;
  accessModes: readonly string[];
  block: boolean;
  selector: boolean;
  deleting: boolean;
}

const provisionerAnnotation = 'volume.kubernetes.io/storage-provisioner';
const oldProvisionerAnnotation = 'volume.beta.kubernetes.io/storage-provisioner';
const selectedNodeAnnotation = 'volume.kubernetes.io/selected-node';

/** The projection of the reflector: undefined for claims that have a volume, or want none to be made. */
export function pendingClaim({ metadata, spec }: PersistentVolumeClaim): PendingClaim | undefined {
  if (spec === undefined || spec.volumeName || !spec.storageClassName) return undefined;
  const annotations = metadata?.annotations ?? {};
  const { dataSourceRef, selector } = spec;
  return {
    namespace: metadata?.namespace ?? '',
    name: metadata?.name ?? '',
    uid: metadata?.uid ?? '',
    storageClass: spec.storageClassName,
    provisioner: annotations[provisionerAnnotation] ?? annotations[oldProvisionerAnnotation] ?? '',
    selectedNode: annotations[selectedNodeAnnotation] ?? '',
    source:
      dataSourceRef === undefined
        ? undefined
        : {
            apiGroup: dataSourceRef.apiGroup ?? '',
            kind: dataSourceRef.kind,
            name: dataSourceRef.name,
            namespace: dataSourceRef.namespace ?? '',
          },
    request: spec.resources?.requests?.storage ?? '',
    accessModes: spec.accessModes ?? [],
    block: spec.volumeMode === 'Block',
    selector: selector !== undefined,
    deleting: metadata?.deletionTimestamp !== undefined,
  };
}
