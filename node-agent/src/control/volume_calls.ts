import type {
  DeleteVolumeResponse,
  GetVolumeRequest,
  ListVolumesResponse,
  PublishedVolume,
  PublishVolumeRequest,
  Volume,
} from '@hearth/common/generated/hearth/v1/control.ts';
import type { Agent } from '../agent/index.ts';
import { volumeName } from '../mounts/index.ts';

/** Volumes: records in the store, and mounts on this node. */
export class VolumeCalls {
  readonly #agent: Agent;

  constructor(agent: Agent) {
    this.#agent = agent;
  }

  async publishVolume(request: PublishVolumeRequest, signal: AbortSignal): Promise<PublishedVolume> {
    if (volumeName(request.dataset) === undefined) this.#agent.usage.began(request.dataset);
    const published = await this.#agent.volumeMounts.publish(request, signal);
    return { ...published, files: BigInt(published.files) };
  }

  async createVolume({ name, dataset, capacityBytes, manifest }: Volume, signal: AbortSignal): Promise<Volume> {
    return await this.#agent.volumes.create({ name, dataset, capacityBytes, manifest }, { signal });
  }

  async getVolume({ name }: GetVolumeRequest, signal: AbortSignal): Promise<Volume> {
    return await this.#agent.volumes.get(name, { signal });
  }

  async listVolumes(signal: AbortSignal): Promise<ListVolumesResponse> {
    return { volumes: await this.#agent.volumes.list({ signal }) };
  }

  async deleteVolume({ name }: GetVolumeRequest, signal: AbortSignal): Promise<DeleteVolumeResponse> {
    await this.#agent.volumes.delete(name, { signal });
    return {};
  }
}
