import type { WarmJob } from '@hearth/common/generated/hearth/v1/control.ts';
import type { ClusterStatus } from '../agents/index.ts';
import type { NodeFacts } from '../kubernetes/index.ts';
import type { PodGroupStatus } from './readiness.ts';

/** Everything that one pass reads. Times are milliseconds since the epoch. */
export interface ObservedPreload {
  now: number;
  datasets: readonly ObservedDataset[];
  clusters: readonly string[];
  /** Undefined before the first answer, and unless the Datasets have one StorageCluster. */
  agents: ObservedAgents | undefined;
  nodes: readonly ObservedNode[];
  pods: PodGroupStatus | undefined;
  jobs: readonly WarmJob[];
  /** Nodes with pins for this preload, by owner; undefined before agents have answered. */
  pins: ReadonlyMap<string, ReadonlySet<string>> | undefined;
  /** Failures to pin, by `pinKey`; agents get no further request before `until`. */
  pinTroubles: ReadonlyMap<string, { message: string; until: number }>;
  measures: ReadonlyMap<string, Measure>;
  /** Since when a node is not Ready or its agent does not serve. */
  unavailableSince: ReadonlyMap<string, number>;
  /** The earliest retry after a failure, by `retryKey`. */
  retryAt: ReadonlyMap<string, number>;
  /** How long a chosen node may be away before another node replaces it, ms. */
  graceMs: number;
  /** How long the written figures stay, ms. */
  holdMs: number;
}

export interface ObservedDataset {
  name: string;
  registered: string;
  /** Undefined when the Dataset does not exist or is being deleted. */
  present: { manifest: string; revision: string } | undefined;
  /** Undefined when agents can serve the Dataset. */
  trouble: { reason: 'DatasetNotFound' | 'DatasetNotReady'; message: string } | undefined;
}

export type ObservedAgents = Pick<ClusterStatus, 'connected' | 'nodes' | 'datasets'>;
export type ObservedNode = Pick<NodeFacts, 'name' | 'labels' | 'ready'>;

export type Measure =
  | { kind: 'files'; files: bigint; bytes: bigint }
  | { kind: 'none'; message: string }
  /** Agents do not know the revision, or no longer. */
  | { kind: 'unknown'; message: string };

export function retryKey(wanted: string, node: string): string {
  return `${wanted}/${node}`;
}

export function pinKey(owner: string, node: string): string {
  return `${owner}/${node}`;
}
