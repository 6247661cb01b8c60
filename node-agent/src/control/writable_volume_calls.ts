import { HearthError } from '@hearth/common';
import type {
  CreateWritableVolumeRequest,
  DeleteVolumeResponse,
  DeleteWritableVolumeRequest,
  GetVolumeRequest,
  ListWritableVolumesResponse,
  ResizeWritableVolumeRequest,
  WritableVolume,
} from '@hearth/common/generated/hearth/v1/control.ts';
import type { Agent } from '../agent/index.ts';
import { type MountRow, volumePrefix } from '../mounts/index.ts';
import type { NodeStatistics } from '../statistics/index.ts';
import type { WritableVolumeRecord } from '../writable_volumes/index.ts';
import { writableVolumeMessage } from './convert_volume.ts';

/** Writable volumes of the cluster. */
export class WritableVolumeCalls {
  readonly #agent: Agent;

  constructor(agent: Agent) {
    this.#agent = agent;
  }

  async create(request: CreateWritableVolumeRequest, signal: AbortSignal): Promise<WritableVolume> {
    const { name, maxBytes, maxFiles, deadlineMs } = request;
    const { writableVolumes, context } = this.#agent;
    const kind = request.kind || 'scratch';
    return this.#message(
      await writableVolumes.create({ name, kind, maxBytes, maxFiles, deadlineMs: Number(deadlineMs) }, context, {
        signal,
      }),
      new Map(),
    );
  }

  async get({ name }: GetVolumeRequest, signal: AbortSignal): Promise<WritableVolume> {
    const record = await this.#agent.writableVolumes.get(name, { signal });
    return this.#message(record, await this.#figures(signal));
  }

  async list(signal: AbortSignal): Promise<ListWritableVolumesResponse> {
    const records = await this.#agent.writableVolumes.list({ signal });
    if (records.length === 0) return { volumes: [] };
    const figures = await this.#figures(signal);
    return { volumes: records.map((record) => this.#message(record, figures)) };
  }

  async resize({ name, maxBytes }: ResizeWritableVolumeRequest, signal: AbortSignal): Promise<WritableVolume> {
    const record = await this.#agent.writableVolumes.resize(name, maxBytes, { signal });
    return this.#message(record, await this.#figures(signal));
  }

  /** Unmounts what was published for pods that have ended. Throws `InUse` while other mounts are left, unless `force`. */
  async delete({ name, force }: DeleteWritableVolumeRequest, signal: AbortSignal): Promise<DeleteVolumeResponse> {
    const { writableVolumes } = this.#agent;
    await writableVolumes.get(name, { signal });
    const users = force ? [] : await this.#users(`${volumePrefix}${name}`, signal);
    const [first] = users;
    if (first !== undefined) {
      const more = users.length === 1 ? '' : ` and at ${users.length - 1} more places`;
      throw new HearthError(
        'InUse',
        `volume ${name} is mounted on ${first.node} at ${first.target}${more}; unmount it (hearth umount), or delete it with --force`,
      );
    }
    await writableVolumes.delete(name, { signal });
    return {};
  }

  async #users(dataset: string, signal: AbortSignal): Promise<MountRow[]> {
    const { context, mounts, requests } = this.#agent;
    const before = await mounts.withoutDeparted(await mounts.of(dataset));
    const members = context.members.caching();
    const asked = [...new Set(before.map(({ node }) => node))].filter((node) => members.has(node));
    if (asked.length === 0) return before;
    await requests.ask({ kind: 'release', dataset, manifest: '', paths: [], owner: '', evict: false }, asked, signal);
    return await mounts.of(dataset);
  }

  /** Of all agents, without the residency of datasets, of which none has this name. */
  async #figures(signal: AbortSignal): Promise<ReadonlyMap<string, NodeStatistics>> {
    const { statistics } = await this.#agent.clusterStatistics.gather({ datasets: [''] }, signal);
    return statistics;
  }

  #message(record: WritableVolumeRecord, nodes: ReadonlyMap<string, NodeStatistics>): WritableVolume {
    const { writableVolumeTables, context } = this.#agent;
    return writableVolumeMessage(record, {
      leader: writableVolumeTables.leaderOf(record.id),
      members: context.members,
      nodes: [...nodes.values()],
    });
  }
}
