import {
  type Applied,
  apiVersionOf,
  type KubernetesObject,
  kinds,
  ownerReference,
  type ResourceType,
} from '@hearth/common/kubernetes';
import { type StorageCluster, specHashAnnotation } from '@hearth/common/resources';
import { hashOf } from '../../kubernetes/index.ts';
import type { Environment } from '../environment.ts';

export type BuildInput = { cluster: StorageCluster; environment: Environment };

/** An object to apply, with its hash in an annotation. */
export interface DesiredObject<T extends KubernetesObject = KubernetesObject> {
  type: ResourceType<T>;
  object: Applied<T>;
}

/** Adds kind, namespace, labels, owner and hash. */
export function desiredObject<T extends KubernetesObject>(
  { cluster, environment }: BuildInput,
  type: ResourceType<T>,
  name: string,
  labels: Record<string, string>,
  fields: Omit<Applied<T>, 'apiVersion' | 'kind' | 'metadata'>,
): DesiredObject<T> {
  const metadata = {
    name,
    namespace: environment.namespace,
    labels,
    ownerReferences: [ownerReference(kinds.StorageCluster, cluster)],
  };
  const whole = { apiVersion: apiVersionOf(type), kind: type.kind, metadata, ...fields };
  const object = { ...whole, metadata: { ...metadata, annotations: { [specHashAnnotation]: hashOf(whole) } } };
  return { type, object: object as unknown as Applied<T> };
}
