import type { WarmJob } from '@hearth/common/generated/hearth/v1/control.ts';
import type { ClusterStatus } from '../agents/index.ts';
import type { NodeFacts } from '../kubernetes/index.ts';
import type { PodGroupStatus } from './readiness.ts';

/** Everything that a pass over one CachePreload goes by, read once. */
export interface ObservedPreload {
  /** Milliseconds since the epoch. */
  now: number;
  /** One for each of spec.datasets, in their order. */
  datasets: readonly ObservedDataset[];
  /** Names of the StorageClusters of these Datasets. */
  clusters: readonly string[];
  /** The last answer of the agents; undefined: none has answered yet, or there is no single StorageCluster. */
  agents: ObservedAgents | undefined;
  /** Nodes of the StorageCluster, as Kubernetes knows them. */
  nodes: readonly ObservedNode[];
  /** Of gated pods. */
  pods: PodGroupStatus | undefined;
  /** Warm jobs of this preload, also those that have ended. */
  jobs: readonly WarmJob[];
  /** Nodes that keep files for this preload, by owner of the pins; undefined: not known yet. */
  pins: ReadonlyMap<string, ReadonlySet<string>> | undefined;
  /** Why nodes did not pin, by owner and node, and when they may be asked again. */
  pinTroubles: ReadonlyMap<string, { message: string; until: number }>;
  /** Files and bytes of what is wanted, by its id. */
  measures: ReadonlyMap<string, Measure>;
  /** Since when a node is not Ready, or its agent does not serve, milliseconds since the epoch. */
  awaySince: ReadonlyMap<string, number>;
  /** Until when a node is left alone with something after it failed, by `retryKey`. */
  retryAt: ReadonlyMap<string, number>;
  /** An agent that went away is waited for this long before another node takes its place. */
  graceMs: number;
  /** For so long the figures in the status shall stay as they are written, milliseconds. */
  holdMs: number;
}

export interface ObservedDataset {
  name: string;
  /** By which agents know it. */
  registered: string;
  /** Undefined: there is no such Dataset, or it is being deleted. */
  present: { manifest: string; revision: string } | undefined;
  /** Why it cannot be brought to nodes now; undefined: it can. */
  trouble: { reason: 'DatasetNotFound' | 'DatasetNotReady'; message: string } | undefined;
}

export type ObservedAgents = Pick<ClusterStatus, 'connected' | 'nodes' | 'datasets'>;
export type ObservedNode = Pick<NodeFacts, 'name' | 'labels' | 'ready'>;

export type Measure =
  | { kind: 'files'; files: bigint; bytes: bigint }
  /** The globs choose no file of this revision. */
  | { kind: 'none'; message: string }
  /** Agents do not know the revision (any more). */
  | { kind: 'unknown'; message: string };

export function retryKey(wanted: string, node: string): string {
  return `${wanted}/${node}`;
}

/** Key of `pinTroubles`. */
export function pinKey(owner: string, node: string): string {
  return `${owner}/${node}`;
}
