import { isDeepStrictEqual } from 'node:util';

/**
 * The interface between gates, which plan and release pods, and the executor, which brings the bytes. Keys are
 * 'namespace/name' of CachePreloads, whose spec carries the plan. Both sides answer from memory.
 */

export interface PodGroupStatus {
  /** Why the plan has these nodes, or why the gates released the pods. */
  reason: string;
  waiting: number;
  released: number;
}

export interface PodGroupStatuses {
  /** Undefined after a start; the status then keeps its figures. */
  of(key: string): PodGroupStatus | undefined;
  /**
   * True while a CachePreload deleted at this time must stay: pods that waited for it have not started yet, and a leader
   * that did not see the deletion would make another one for them. Also true until the pods are known.
   */
  holds(key: string, deletionTimestamp: string): boolean;
  /** Called when `of` would answer otherwise. */
  onChange(listener: (key: string) => void): () => void;
}

/** The progress of one node over all Datasets of a CachePreload. */
export interface NodeReadiness {
  /** Share of stored bytes, rounded down: 100 only when every byte is stored and verified as `spec.verify` asks. */
  percent: number;
  /** The same for bytes that are stored or in memory. */
  memoryPercent: number;
  /** The agent has confirmed the pins, or the spec asks for none. */
  pinned: boolean;
}

/** The readiness of each CachePreload now, ahead of its written status. */
export type Readiness = Pick<ReadinessCache, 'of' | 'onChange'>;

/** The executor sets it, the gates read it. */
export class ReadinessCache {
  readonly #known = new Map<string, ReadonlyMap<string, NodeReadiness>>();
  readonly #listeners = new Set<(key: string) => void>();

  /** By desired node; undefined before the first pass over the CachePreload. */
  of(key: string): ReadonlyMap<string, NodeReadiness> | undefined {
    return this.#known.get(key);
  }

  onChange = (listener: (key: string) => void): (() => void) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };

  /** Undefined when the CachePreload is deleted, or no agent answers. */
  set(key: string, nodes: ReadonlyMap<string, NodeReadiness> | undefined): void {
    if (isDeepStrictEqual(this.#known.get(key), nodes)) return;
    if (nodes === undefined) this.#known.delete(key);
    else this.#known.set(key, nodes);
    for (const listener of this.#listeners) listener(key);
  }

  clear(): void {
    for (const key of [...this.#known.keys()]) this.set(key, undefined);
  }
}
