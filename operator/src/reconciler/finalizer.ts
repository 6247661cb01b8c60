import {
  type KubernetesClient,
  type KubernetesObject,
  objectKey,
  type ResourceType,
  splitKey,
} from '@hearth/common/kubernetes';
import { finalizerName } from '@hearth/common/resources';

type Patches = Pick<KubernetesClient, 'patch'>;

export function hasFinalizer(object: KubernetesObject): boolean {
  return object.metadata?.finalizers?.includes(finalizerName) ?? false;
}

/** Adds our finalizer and returns the new object. Throws Conflict when the object has changed. */
export async function addFinalizer<T extends KubernetesObject>(
  api: Patches,
  type: ResourceType<T>,
  object: T,
  signal: AbortSignal,
): Promise<T> {
  return await setFinalizers(api, type, object, [...(object.metadata?.finalizers ?? []), finalizerName], signal);
}

/** Keeps the finalizers of others. */
export async function removeFinalizer<T extends KubernetesObject>(
  api: Patches,
  type: ResourceType<T>,
  object: T,
  signal: AbortSignal,
): Promise<void> {
  const others = (object.metadata?.finalizers ?? []).filter((name) => name !== finalizerName);
  await setFinalizers(api, type, object, others, signal);
}

/** The patch replaces the whole list, so it names the observed resource version. */
async function setFinalizers<T extends KubernetesObject>(
  api: Patches,
  type: ResourceType<T>,
  object: T,
  finalizers: string[],
  signal: AbortSignal,
): Promise<T> {
  const { namespace, name } = splitKey(objectKey(object));
  const { uid, resourceVersion } = object.metadata ?? {};
  const patch = { metadata: { uid, resourceVersion, finalizers } };
  return await api.patch(type, name, namespace, patch, { kind: 'merge', signal });
}
