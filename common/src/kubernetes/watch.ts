import { apiVersionOf, type KubernetesObject, type ResourceType } from './object.ts';
import type { ChangeListener } from './reflector.ts';
import type { WorkQueue } from './work_queue.ts';

/** A source of events that wakes a controller. */
export interface Watch {
  /** Resolves when all that there is at first is known. Absent: there is no first list. */
  synced?(): Promise<void>;
  /** Begins; gives the way to stop. Keys that are added before the first lists are complete wait for them. */
  start(queue: Pick<WorkQueue, 'addAfter'>): () => void;
}

/** A reflector, or what reports changes as one does, though perhaps no more of them than the key. */
export interface Watched<P> {
  synced?(): Promise<void>;
  onChange(listener: (key: string, before?: P, after?: P) => void): () => void;
}

/** The keys that a change concerns, if any. `before` undefined: new; `after` undefined: gone. */
// biome-ignore lint/suspicious/noConfusingVoidType: some only take note
export type KeysOf<P> = (...change: Parameters<ChangeListener<P>>) => Iterable<string> | void;

/** Each change adds the keys that it concerns; after this time, ms, where many changes are to be one pass. */
export function watch<P>(watched: Watched<P>, keysOf: KeysOf<P>, afterMs: number | (() => number) = 0): Watch {
  return {
    synced: async () => await watched.synced?.(),
    start: (queue) =>
      watched.onChange((key, before, after) => {
        for (const concerned of keysOf(key, before, after) ?? []) {
          queue.addAfter(concerned, typeof afterMs === 'number' ? afterMs : afterMs());
        }
      }),
  };
}

/** For keysOf: the object itself. */
export function ownKey(key: string): string[] {
  return [key];
}

/** For keysOf: the objects of this kind that control it, before and now. Owners are in the same namespace or have none. */
export function controllerKey<T extends KubernetesObject>(owner: ResourceType<T>): KeysOf<KubernetesObject> {
  const version = apiVersionOf(owner);
  return (_key, ...objects) =>
    objects.flatMap((object) => {
      const { namespace, ownerReferences } = object?.metadata ?? {};
      const reference = ownerReferences?.find(
        ({ controller, apiVersion, kind }) => controller && apiVersion === version && kind === owner.kind,
      );
      if (reference === undefined) return [];
      return [owner.namespaced ? `${namespace}/${reference.name}` : reference.name];
    });
}

/** True when the spec differs, or the object is another one, has come or has gone. */
export function hasNewSpec(before: KubernetesObject | undefined, after: KubernetesObject | undefined): boolean {
  return before?.metadata?.generation !== after?.metadata?.generation;
}
