import type { Clock } from '@hearth/common';
import type { Members } from '../context.ts';
import type { DatasetTables } from '../datasets/index.ts';
import type { SeenMount } from '../mounts/index.ts';
import type { ClusterStatistics } from '../statistics/index.ts';
import type { UsageRecord } from '../usage/index.ts';
import type { SeenJob } from '../warm/index.ts';
import type { WritableVolumeTables } from '../writable_volumes/index.ts';
import type { Agent } from './agent.ts';

/** One agent's view of the cluster. */
export interface ClusterSight {
  node: string;
  clock: Clock;
  members: Members;
  datasets: Pick<DatasetTables, 'all'>;
  statistics: Pick<ClusterStatistics, 'gather' | 'stored'>;
  usage: { of(dataset: string): UsageRecord | undefined };
  jobs(): SeenJob[];
  volumes: Pick<WritableVolumeTables, 'list' | 'leaderOf'>;
  /** Mounts of this agent. */
  mounts(): Promise<SeenMount[]>;
  /** Calls the listener when the view, apart from figures of other agents, may have changed; returns a function that unsubscribes. */
  onStatusChange(listener: () => void): () => void;
}

export function sightOf(agent: Agent): ClusterSight {
  const { context, datasets, clusterStatistics: statistics, usage, warmJobs, mounts } = agent;
  return {
    node: context.node,
    clock: context.clock,
    members: context.members,
    datasets,
    statistics,
    usage,
    jobs: () => warmJobs.list(),
    volumes: agent.writableVolumeTables,
    mounts: () => mounts.list(),
    onStatusChange: (listener) => agent.onStatusChange(listener),
  };
}
