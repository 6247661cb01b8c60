import type { PersistentVolumeClaim, StorageClass } from '@hearth/common/kubernetes';
import { driverName } from '@hearth/common/resources';

/** The projection of a claim without a volume. */
export interface PendingClaim {
  namespace: string;
  name: string;
  uid: string;
  storageClass: string;
  /** The provisioner that the control plane chose; empty before. */
  provisioner: string;
  /** The node of the first pod, for WaitForFirstConsumer; empty before. */
  selectedNode: string;
  source: { apiGroup: string; kind: string; name: string; namespace: string } | undefined;
  request: string;
  accessModes: readonly string[];
  block: boolean;
  selector: boolean;
  deleting: boolean;
}

const provisionerAnnotation = 'volume.kubernetes.io/storage-provisioner';
const oldProvisionerAnnotation = 'volume.beta.kubernetes.io/storage-provisioner';
const selectedNodeAnnotation = 'volume.kubernetes.io/selected-node';

/** Undefined for claims that are bound, or need no new volume. */
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

export interface ClassView {
  name: string;
  parameters: Readonly<Record<string, string>>;
  reclaimPolicy: string;
  mountOptions: readonly string[];
  waitsForConsumer: boolean;
}

/** Undefined for other provisioners. */
export function classView(object: StorageClass): ClassView | undefined {
  if (object.provisioner !== driverName) return undefined;
  return {
    name: object.metadata?.name ?? '',
    parameters: object.parameters ?? {},
    reclaimPolicy: object.reclaimPolicy ?? 'Delete',
    mountOptions: object.mountOptions ?? [],
    waitsForConsumer: object.volumeBindingMode === 'WaitForFirstConsumer',
  };
}
