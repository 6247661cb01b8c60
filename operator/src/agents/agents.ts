import type { CallName, RequestOf, ResponseOf, StreamName } from '@hearth/common';
import type { Dataset, NodeStatus, WarmJob } from '@hearth/common/generated/hearth/v1/control.ts';

export interface CallOptions {
  signal: AbortSignal;
  /** Milliseconds for the whole call, tries at other agents included. Absent: 10 s for calls, 60 s for streams. */
  deadlineMs?: number;
  /** The only agent that may answer, by node name. Absent: any that is ready, another one when the first is away. */
  node?: string;
  /** Only agents may answer that offer this feature of the control API, as far as is known now. */
  feature?: string;
}

/** The last report of a cluster's agents. */
export interface ClusterStatus {
  /** By `Clock.now`, milliseconds. */
  receivedAt: number;
  /** False while no agent answers: the rest is what was known before. */
  connected: boolean;
  /** By node name. */
  nodes: ReadonlyMap<string, NodeStatus>;
  /** By the agents' name of the dataset: `NAMESPACE.NAME`. */
  datasets: ReadonlyMap<string, Dataset>;
  jobs: ReadonlyMap<string, WarmJob>;
  /** How the control API of agents differs from ours, a sentence each. */
  apiDifferences: readonly string[];
}

/**
 * The control API of the agents of one StorageCluster. Errors are `HearthError` with the agent's own code and
 * sentence; `Unavailable` when no agent can be reached, with the reason of the last one tried.
 */
export interface ClusterAgents {
  readonly cluster: string;
  /** Undefined until an agent has answered for the first time since the start. */
  readonly status: ClusterStatus | undefined;
  /** Why no agent reports its status now, as the one said that was asked last; undefined while one does. */
  readonly trouble: string | undefined;
  /**
   * One answer. A try that fails with `Unavailable`, or that has had its share of the deadline, is made again at another agent, so
   * the calls must be idempotent, as those of the control API are.
   */
  call<Name extends CallName>(name: Name, request: RequestOf<Name>, options: CallOptions): Promise<ResponseOf<Name>>;
  /**
   * All answers of a stream. Begins again at another agent only while the first answer has not come; after that
   * a broken stream throws. Leaving the loop cancels the call.
   */
  stream<Name extends StreamName>(
    name: Name,
    request: RequestOf<Name>,
    options: CallOptions,
  ): AsyncIterable<ResponseOf<Name>>;
}

export type StatusListener = (
  cluster: string,
  before: ClusterStatus | undefined,
  after: ClusterStatus | undefined,
) => void;

/** The agents of every StorageCluster of which this operator knows. */
export interface Agents {
  /** Undefined when there is no such StorageCluster or its certificates are not made yet. */
  get(cluster: string): ClusterAgents | undefined;
  /** By name of the StorageCluster: after every status message, at most every 2 s each; `after` undefined: it is gone. */
  onChange(listener: StatusListener): () => void;
}
