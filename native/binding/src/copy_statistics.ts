/** Of files that eviction for room asked other agents about: those that are wanted in the cluster. */
export interface CopyStatistics {
  /** Evicted, as other agents keep them. */
  redundant: bigint;
  /** Evicted, though as far as is known no other agent keeps them. */
  last: bigint;
  /** Evicted, and the agents that would know of other copies did not answer in time, or did not confirm them yet. */
  unanswered: bigint;
  /** Evicted without a question: there was no time for it, or the agent that would know is of a release that knows none. */
  unasked: bigint;
  /** Times that one stayed, as no other agent keeps it. */
  kept: bigint;
}
