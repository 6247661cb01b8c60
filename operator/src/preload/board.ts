/**
 * Between the two halves of a preload for gated pods: those who plan and release pods (gates), and those who bring the
 * bytes (this folder). A key is 'namespace/name' of a CachePreload. Both sides answer from memory, at once.
 */

/** A listener is given the key of the CachePreload that changed. Returns the function that ends it. */
export type OnChange = (listener: (key: string) => void) => () => void;

/** Where the pods of a CachePreload will go. Given by the gates. */
export interface PlannedPods {
  /** Nodes that are to hold the bytes, in the order in which they are warmed. */
  nodes: readonly string[];
  /** A sentence for people: why these nodes, or why the pods were released. */
  reason: string;
  /** Pods that are held back now. */
  waiting: number;
  /** Pods that were released. */
  released: number;
}

export interface PlannedNodes {
  /** Undefined: no plan is known yet, as after a start; then the nodes of the CachePreload's status stand. */
  of(key: string): PlannedPods | undefined;
  /** Called when `of` would answer otherwise. */
  onChange: OnChange;
}

/** How far one node is with everything that a CachePreload wants there. */
export interface NodeReadiness {
  /**
   * Bytes that are there, rounded down, over all Datasets of the CachePreload. 100 only when everything is there and what
   * this preload brought was verified.
   */
  percent: number;
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
