import { isDeepStrictEqual } from 'node:util';
import type { CallName, RequestOf, ResponseOf, StreamName } from '@hearth/common';
import type { Dataset, NodeStatus, WarmJob } from '@hearth/common/generated/hearth/v1/control.ts';

export interface CallOptions {
  signal: AbortSignal;
  /** For all attempts together. Default: 10 s for calls, 60 s for streams. */
  deadlineMs?: number;
  /** Asks this node's agent alone. Absent: any agent, ready ones first. */
  node?: string;
  /** Asks only agents known to support this feature of the control API. */
  feature?: string;
}

export interface ClusterStatus {
  /** When records last came, by `Clock.now`, ms. */
  receivedAt: number;
  /** False while no agent answers; the rest is the last report. */
  connected: boolean;
  nodes: ReadonlyMap<string, NodeStatus>;
  /** By `NAMESPACE.NAME`. */
  datasets: ReadonlyMap<string, Dataset>;
  jobs: ReadonlyMap<string, WarmJob>;
  /** Differences between the agents' control API and ours, one sentence each. */
  apiDifferences: readonly string[];
}

/** Throws HearthError with the agent's code, or `Unavailable` with the reason of the last attempt. */
export interface ClusterAgents {
  readonly cluster: string;
  /** Undefined before the first report since the start. */
  readonly status: ClusterStatus | undefined;
  /** The last error while no agent reports; else undefined. */
  readonly trouble: string | undefined;
  /** Retries at another agent after `Unavailable` or a share of the deadline, so calls must be idempotent. */
  call<Name extends CallName>(name: Name, request: RequestOf<Name>, options: CallOptions): Promise<ResponseOf<Name>>;
  /** Moves to another agent only before the first answer; later failures throw. Leaving the loop cancels the call. */
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

export interface Agents {
  /** Undefined for an unknown StorageCluster, or one without certificates. */
  get(cluster: string): ClusterAgents | undefined;
  /** Called after each report; `after` is undefined for a removed cluster. Returns an unsubscriber. */
  onChange(listener: StatusListener): () => void;
}

/** By the nodes of a status, which never change; by feature. */
const lacking = new WeakMap<ClusterStatus['nodes'], Map<string, readonly string[]>>();

/** Names of the nodes whose agents lack a feature, sorted. Looks at all nodes once for each status. */
export function nodesWithout({ nodes }: Pick<ClusterStatus, 'nodes'>, feature: string): readonly string[] {
  const known = lacking.get(nodes) ?? new Map<string, readonly string[]>();
  lacking.set(nodes, known);
  const found = known.get(feature) ?? withoutFeature(nodes, feature);
  known.set(feature, found);
  return found;
}

function withoutFeature(nodes: ClusterStatus['nodes'], feature: string): readonly string[] {
  return [...nodes.values()].flatMap(({ node, apiFeatures }) => (apiFeatures.includes(feature) ? [] : [node])).sort();
}

export function sameNodesWithout(
  before: ClusterStatus | undefined,
  after: ClusterStatus | undefined,
  feature: string,
): boolean {
  const [was, is] = [before, after].map((status) => (status === undefined ? [] : nodesWithout(status, feature)));
  return isDeepStrictEqual(was, is);
}

/** Reports grow with agents and Datasets, so large clusters report less often. */
export function statusIntervalMs(agents: number): number {
  return Math.min(15_000, Math.max(2_000, agents * 50));
}
