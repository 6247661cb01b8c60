import type { StorageClass } from '@hearth/common/kubernetes';
import { driverName } from '@hearth/common/resources';

/** The kept part of a StorageClass of ours. */
export interface ClassView {
  name: string;
  parameters: Readonly<Record<string, string>>;
  reclaimPolicy: string;
  mountOptions: readonly string[];
  waitsForConsumer: boolean;
}

/** The projection of the reflector: undefined for classes of other provisioners. */
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
