import { controlApi } from '@hearth/common';
import type {
  ConfigureNodeRequest,
  ConfigureNodeResponse,
  GetStatusResponse,
  WatchStatusRequest,
} from '@hearth/common/generated/hearth/v1/control.ts';
import type { Agent } from '../agent/agent.ts';
import type { Members } from '../context.ts';
import type { DatasetTables } from '../datasets/index.ts';
import type { SeenMount } from '../mounts/mounts.ts';
import type { NodeStatistics } from '../statistics/record.ts';
import type { UsageRecord } from '../usage/index.ts';
import type { SeenJob } from '../warm/index.ts';
import { datasetMessage, jobMessage, mountMessage, nodeMessage, resolvingMessage } from './convert.ts';
import { watchStatus } from './status_stream.ts';

const defaultWatchMs = 2_000;
const leastWatchMs = 100;

/** What one agent knows of the cluster. */
export interface ClusterSight {
  node: string;
  members: Members;
  datasets: Pick<DatasetTables, 'all'>;
  statistics: { of(node: string): NodeStatistics | undefined; all(): NodeStatistics[] };
  usage: { of(dataset: string): UsageRecord | undefined };
  jobs(): SeenJob[];
  /** Of this agent. */
  mounts(): Promise<SeenMount[]>;
  /** Calls the listener when something of this may have changed; returns the function that ends it. */
  onStatusChange(listener: () => void): () => void;
}

export function sightOf(agent: Agent): ClusterSight {
  const { context, datasets, statistics, usage, warmJobs, mounts } = agent;
  return {
    node: context.node,
    members: context.members,
    datasets,
    statistics,
    usage,
    jobs: () => warmJobs.list(),
    mounts: () => mounts.list(),
    onStatusChange: (listener) => agent.onStatusChange(listener),
  };
}

/** Calls about agents and what all of them know: answered with a cache or without. */
export class StatusCalls {
  readonly #sight: ClusterSight;
  readonly #cluster: string;

  constructor(sight: ClusterSight, cluster: string) {
    this.#sight = sight;
    this.#cluster = cluster;
  }

  async status(): Promise<GetStatusResponse> {
    const { node, members, statistics, usage, datasets, jobs, mounts } = this.#sight;
    const now = Date.now();
    return {
      cluster: this.#cluster,
      node,
      nodes: members.all().map((member) => nodeMessage(member, statistics.of(member.node), now)),
      datasets: datasets.all().flatMap(({ dataset, resolving }) => {
        if (dataset !== undefined) {
          return [datasetMessage(dataset, { resolving, nodes: statistics.all(), usage: usage.of(dataset.name), now })];
        }
        return resolving === undefined ? [] : [resolvingMessage(resolving)];
      }),
      jobs: jobs().map(jobMessage),
      mounts: (await mounts()).map(mountMessage),
      apiVersion: controlApi.apiVersion,
      apiFeatures: [...controlApi.apiFeatures],
    };
  }

  watch({ intervalMs }: WatchStatusRequest, signal: AbortSignal): AsyncGenerator<GetStatusResponse> {
    const source = {
      status: () => this.status(),
      onChange: (listener: () => void) => this.#sight.onStatusChange(listener),
    };
    return watchStatus(source, Math.max(leastWatchMs, intervalMs || defaultWatchMs), signal);
  }

  async configure({ zone, rack }: ConfigureNodeRequest): Promise<ConfigureNodeResponse> {
    this.#sight.members.setPlace(zone, rack);
    return {};
  }
}
