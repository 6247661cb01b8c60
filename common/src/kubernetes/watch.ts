import type { KubernetesObject } from './object.ts';
import type { ChangeListener } from './reflector.ts';
import type { WorkQueue } from './work_queue.ts';

/** A source of keys for a controller's queue. */
export interface Watch {
  /** Resolves when the initial list is complete. Absent: the source has no initial list. */
  synced?(): Promise<void>;
  /**
   * Starts the watch; returns a function that stops it. Keys added before all initial lists are complete wait for them.
   */
  start(queue: Pick<WorkQueue, 'addAfter'>): () => void;
}

/** A reflector, or a source that reports changes like one, perhaps with the key alone. */
export interface Watched<P> {
  synced?(): Promise<void>;
  onChange(listener: (key: string, before?: P, after?: P) => void): () => void;
}

/** Keys concerned by a change. `before` undefined: added; `after` undefined: deleted. */
// biome-ignore lint/suspicious/noConfusingVoidType: some only take note
export type KeysOf<P> = (...change: Parameters<ChangeListener<P>>) => Iterable<string> | void;

/** Adds the keys concerned by each change, after `afterMs` to merge bursts of changes into one reconcile. */
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

/** For keysOf: the changed object itself. */
export function ownKey(key: string): string[] {
  return [key];
}

/** True when the spec changed, or the object was added, deleted or replaced. */
export function hasNewSpec(before: KubernetesObject | undefined, after: KubernetesObject | undefined): boolean {
  return before?.metadata?.generation !== after?.metadata?.generation;
}
