import {
  apiVersionOf,
  type KubernetesObject,
  type Reflector,
  type ResourceType,
  type WorkQueue,
} from '@hearth/common/kubernetes';

/**
 * Adds to the queue the keys that a changed object concerns: those of what it was and of what it is. Begins with the
 * objects that are there already. Returns the way to stop.
 */
export function enqueueOnChange<P>(
  objects: Pick<Reflector<KubernetesObject, P>, 'keys' | 'get' | 'onChange'>,
  queue: Pick<WorkQueue, 'add'>,
  keysOf: (object: P, key: string) => Iterable<string>,
): () => void {
  const add = (key: string, object: P | undefined) => {
    if (object === undefined) return;
    for (const concerned of keysOf(object, key)) queue.add(concerned);
  };
  const stop = objects.onChange((key, before, after) => {
    add(key, before);
    add(key, after);
  });
  for (const key of objects.keys()) add(key, objects.get(key));
  return stop;
}

/** For keysOf: the object itself. */
export function ownKey(_object: unknown, key: string): string[] {
  return [key];
}

/** For keysOf: the object of this kind that controls it. Owners are in the same namespace or have none. */
export function controllerKey<T extends KubernetesObject>(
  owner: ResourceType<T>,
): (object: KubernetesObject) => string[] {
  const version = apiVersionOf(owner);
  return ({ metadata }) => {
    const reference = metadata?.ownerReferences?.find(
      ({ controller, apiVersion, kind }) => controller && apiVersion === version && kind === owner.kind,
    );
    if (reference === undefined) return [];
    return [owner.namespaced ? `${metadata?.namespace}/${reference.name}` : reference.name];
  };
}
