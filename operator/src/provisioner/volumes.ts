import { HearthError } from '@hearth/common';
import { AccessMode, ControllerService, ControlRegistry } from '@hearth/csi-driver';
import type { Agents } from '../agents/index.ts';
import type { VolumeRequest } from './claim_plan.ts';
import type { MadeVolume } from './persistent_volume.ts';
import type { VolumeView } from './volume_plan.ts';

/** Volumes at the agents of a cluster. Both are idempotent; errors are HearthError. */
export interface Volumes {
  create(request: VolumeRequest, signal: AbortSignal): Promise<MadeVolume>;
  /** Makes the record of a volume that is in use, if the agents have none. */
  ensure(volume: VolumeView, signal: AbortSignal): Promise<void>;
  delete(cluster: string, handle: string, signal: AbortSignal): Promise<void>;
}

/** How Kubernetes' access modes are called in CSI. All are accepted: a dataset is read-only whatever they say. */
const modes: Record<string, (typeof AccessMode)[keyof typeof AccessMode]> = {
  ReadWriteOnce: AccessMode.SINGLE_NODE_MULTI_WRITER,
  ReadWriteOncePod: AccessMode.SINGLE_NODE_SINGLE_WRITER,
  ReadOnlyMany: AccessMode.MULTI_NODE_READER_ONLY,
  ReadWriteMany: AccessMode.MULTI_NODE_MULTI_WRITER,
};

/** By the CSI controller, in this process: it has no socket and no sidecar. */
export class AgentVolumes implements Volumes {
  readonly #agents: Pick<Agents, 'get'>;

  constructor(agents: Pick<Agents, 'get'>) {
    this.#agents = agents;
  }

  async create(request: VolumeRequest, signal: AbortSignal): Promise<MadeVolume> {
    const { name, claim, storageClass, cluster, requiredBytes } = request;
    const parameters = { cluster, datasetNamespace: claim.namespace, dataset: claim.source?.name ?? '' };
    const mount = { fsType: '', mountFlags: [...storageClass.mountOptions], volumeMountGroup: '' };
    const volumeCapabilities = claim.accessModes.map((mode) => ({
      accessType: { $case: 'mount' as const, value: mount },
      accessMode: { mode: modes[mode] ?? AccessMode.UNKNOWN },
    }));
    const { volume } = await this.#controller(cluster).createVolume(
      {
        name,
        parameters,
        volumeCapabilities,
        capacityRange: { requiredBytes, limitBytes: 0n },
        secrets: {},
        volumeContentSource: undefined,
        accessibilityRequirements: undefined,
        mutableParameters: {},
      },
      signal,
    );
    if (volume === undefined) throw new HearthError('Internal', `volume ${name} was made without an answer`);
    return volume;
  }

  async ensure(volume: VolumeView, signal: AbortSignal): Promise<void> {
    const { handle: name, cluster, dataset, capacityBytes, revision: manifest } = volume;
    const registry = this.#registry(cluster);
    if ((await registry.get(name, signal)) === undefined) {
      await registry.create({ name, dataset, capacityBytes, manifest }, signal);
    }
  }

  async delete(cluster: string, handle: string, signal: AbortSignal): Promise<void> {
    await this.#controller(cluster).deleteVolume({ volumeId: handle, secrets: {} }, signal);
  }

  #controller(cluster: string): ControllerService {
    const registry = this.#registry(cluster);
    return new ControllerService(registry, registry);
  }

  #registry(cluster: string): ControlRegistry {
    const agents = this.#agents.get(cluster);
    if (agents !== undefined) return new ControlRegistry(agents, cluster);
    throw new HearthError('Unavailable', `no agent of StorageCluster ${cluster} is known yet; it is tried again`);
  }
}
