import { controlApi, epochMs } from '@hearth/common';
import type {
  ConfigureNodeRequest,
  ConfigureNodeResponse,
  GetStatusRequest,
  GetStatusResponse,
  WatchStatusRequest,
} from '@hearth/common/generated/hearth/v1/control.ts';
import type { ClusterSight } from '../agent/index.ts';
import { datasetMessage, jobMessage, mountMessage, nodeMessage, resolvingMessage } from './convert.ts';
import { writableVolumeMessage } from './convert_volume.ts';
import { watchChanges } from './status_changes.ts';
import { watchStatus } from './status_stream.ts';

const defaultWatchMs = 2_000;
const minWatchMs = 100;

/** Calls about agents and cluster-wide state, answered with or without a cache. */
export class StatusCalls {
  readonly #sight: ClusterSight;
  readonly #cluster: string;

  constructor(sight: ClusterSight, cluster: string) {
    this.#sight = sight;
    this.#cluster = cluster;
  }

  async getStatus({ recordsOnly }: GetStatusRequest, signal: AbortSignal): Promise<GetStatusResponse> {
    const { node, clock, members, usage, datasets, jobs, mounts, volumes } = this.#sight;
    const all = this.#sight.statistics;
    const { statistics, missing } = recordsOnly ? all.stored() : await all.gather({}, signal);
    const now = epochMs(clock);
    return {
      cluster: this.#cluster,
      node,
      nodes: members.all().map((member) => {
        const { node: name } = member;
        return nodeMessage(member, statistics.get(name), { missing: missing.get(name) ?? '', now });
      }),
      datasets: datasets.all().flatMap(({ dataset, resolving }) => {
        if (dataset !== undefined) {
          return [
            datasetMessage(dataset, { resolving, nodes: statistics.values(), usage: usage.of(dataset.name), now }),
          ];
        }
        return resolving === undefined ? [] : [resolvingMessage(resolving)];
      }),
      jobs: jobs().map(jobMessage),
      mounts: (await mounts()).map(mountMessage),
      volumes: volumes.list().map((record) => {
        const leader = volumes.leaderOf(record.id);
        return writableVolumeMessage(record, { leader, members, nodes: [...statistics.values()] });
      }),
      apiVersion: controlApi.apiVersion,
      apiFeatures: [...controlApi.apiFeatures],
      changes: undefined,
    };
  }

  watchStatus({ intervalMs, changesMs }: WatchStatusRequest, signal: AbortSignal): AsyncGenerator<GetStatusResponse> {
    const source = {
      status: () => this.getStatus({ recordsOnly: changesMs !== undefined }, signal),
      onChange: (listener: () => void) => this.#sight.onStatusChange(listener),
    };
    const { clock } = this.#sight;
    if (changesMs !== undefined) return watchChanges(source, Math.max(minWatchMs, changesMs), signal, clock);
    return watchStatus(source, Math.max(minWatchMs, intervalMs || defaultWatchMs), signal, clock);
  }

  async configureNode({ zone, rack }: ConfigureNodeRequest): Promise<ConfigureNodeResponse> {
    this.#sight.members.setPlace(zone, rack);
    return {};
  }
}
