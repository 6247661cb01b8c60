import { isDeepStrictEqual } from 'node:util';

/**
 * Between the two halves of a preload for gated pods: those who plan and release pods (gates), and those who bring the
 * bytes (this folder). A key is 'namespace/name' of a CachePreload, and its spec is what is desired. How things stand both
 * sides answer from memory, at once.
 */

/** A listener is given the key of the CachePreload that changed. Returns the function that ends it. */
export type OnChange = (listener: (key: string) => void) => () => void;

/** The pods of a CachePreload of gated pods. Given by the gates. */
export interface PodGroupStatus {
  /** A sentence for people: why these nodes, or why the pods were released. */
  reason: string;
  /** Pods that are held back now. */
  waiting: number;
  /** Pods that were released. */
  released: number;
}

/** For the status only: where the bytes are to be is in the spec of the CachePreload. */
export interface PodGroupStatuses {
  /** Undefined: nothing is known yet, as after a start; then what is written stands. */
  of(key: string): PodGroupStatus | undefined;
  /** Called when `of` would answer otherwise. */
  onChange: OnChange;
}

/** How far one node is with everything that a CachePreload wants there. */
export interface NodeReadiness {
  /**
   * Bytes that are stored there, rounded down, over all Datasets of the CachePreload. 100 only when everything is there and what
   * this preload brought was verified.
   */
  percent: number;
  /** The same of bytes that are stored there or in memory on their way: 100 only when everything is one or the other. */
  memoryPercent: number;
  /** The agent has answered that it keeps all of it, whatever else needs room. True when no pin is wanted. */
  pinned: boolean;
}

/** How far a CachePreload is, at this moment rather than at its last written status. Given by the executor. */
export interface Readiness {
  /** By node, for the nodes that are desired now; undefined: the executor has not looked at it yet. */
  of(key: string): ReadonlyMap<string, NodeReadiness> | undefined;
  /** Called when `of` would answer otherwise. */
  onChange: OnChange;
}

/** The executor's last findings on each CachePreload. */
export class ReadinessCache implements Readiness {
  readonly #known = new Map<string, ReadonlyMap<string, NodeReadiness>>();
  readonly #listeners = new Set<(key: string) => void>();

  of(key: string): ReadonlyMap<string, NodeReadiness> | undefined {
    return this.#known.get(key);
  }

  onChange = (listener: (key: string) => void): (() => void) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };

  /** Undefined: it is gone, or nothing is known of it any more. */
  set(key: string, nodes: ReadonlyMap<string, NodeReadiness> | undefined): void {
    if (isDeepStrictEqual(this.#known.get(key), nodes)) return;
    if (nodes === undefined) this.#known.delete(key);
    else this.#known.set(key, nodes);
    for (const listener of this.#listeners) listener(key);
  }

  /** Another replica leads: what is known here will be too old. */
  clear(): void {
    for (const key of [...this.#known.keys()]) this.set(key, undefined);
  }
}
