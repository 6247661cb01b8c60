import { HearthError } from '@hearth/common';
import type { ControlCalls } from '../agent/index.ts';

/** The meaning of a volume's name. */
export interface VolumeRecord {
  name: string;
  /** As the agents know it: `NAMESPACE.NAME`. */
  dataset: string;
  capacityBytes: bigint;
  /** Digest of the manifest when the volume keeps to one revision, else ''. */
  manifest: string;
}

export interface CatalogEntry {
  /** Bytes of the present revision. */
  bytes: bigint;
  /** True when there is a revision that can be mounted. */
  ready: boolean;
  /** Why not, in a sentence of the agent's. */
  message: string;
}

/**
 * Records of volumes and the datasets of one cluster, by the control API of its agents. Kubernetes keeps PersistentVolumes
 * itself; other container orchestrators ask the driver for a volume by nothing but its name. Errors are `HearthError`.
 */
export class VolumeRegistry {
  readonly #control: ControlCalls;
  #cluster: string | undefined;

  constructor(control: ControlCalls) {
    this.#control = control;
  }

  async get(name: string, signal: AbortSignal): Promise<VolumeRecord | undefined> {
    return await unlessMissing(this.#control.call('getVolume', { name }, { signal }));
  }

  /** `AlreadyExists` when the name was given to something else; the same record again is no error. */
  async create(record: VolumeRecord, signal: AbortSignal): Promise<void> {
    await this.#control.call('createVolume', { ...record }, { signal });
  }

  /** In no particular order. */
  async list(signal: AbortSignal): Promise<VolumeRecord[]> {
    return (await this.#control.call('listVolumes', {}, { signal })).volumes;
  }

  /** No error when there is none. */
  async delete(name: string, signal: AbortSignal): Promise<void> {
    await unlessMissing(this.#control.call('deleteVolume', { name }, { signal }));
  }

  /** Name of the StorageCluster. */
  async cluster(signal: AbortSignal): Promise<string> {
    this.#cluster ??= (await this.#control.call('getStatus', {}, { signal })).cluster;
    return this.#cluster;
  }

  /** By `NAMESPACE.NAME`; undefined when the agents do not know it. */
  async find(dataset: string, signal: AbortSignal): Promise<CatalogEntry | undefined> {
    const found = await unlessMissing(this.#control.call('getDataset', { name: dataset }, { signal }));
    if (found === undefined) return undefined;
    // One that has a revision stays usable while a newer one is being resolved, or cannot be.
    return { bytes: found.bytes, ready: found.manifest !== '', message: found.message };
  }
}

async function unlessMissing<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (thrown) {
    if (thrown instanceof HearthError && thrown.code === 'NotFound') return undefined;
    throw thrown;
  }
}
