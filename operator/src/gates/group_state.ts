/** The memory of one leader's term about a group. */
export interface GroupState {
  /** Uids of pods whose gates are open, though the watch has not shown it yet. */
  readonly open: Set<string>;
  /** Time of the last deletion of its CachePreload, ms since the epoch: older pods do not wait for another one. */
  withdrawnAt?: number | undefined;
  /** Clock time since when it has no pods. */
  emptySince?: number | undefined;
  /** The last event to its pods, without figures. */
  reported?: string | undefined;
  /** Why the API server refuses its CachePreload; until its pods are released for it. */
  refused?: string | undefined;
  /** Why the API server refuses the nodes of its plan; until it takes them. */
  nodesRefused?: string | undefined;
  /** Clock time of the last write of the nodes. */
  nodesWrittenAt?: number | undefined;
}
