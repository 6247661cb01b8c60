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

/** The volumes of a cluster: names and what they stand for, no bytes. Errors are `HearthError`. */
export interface VolumeRegistry {
  get(name: string, signal: AbortSignal): Promise<VolumeRecord | undefined>;
  /** `AlreadyExists` when the name was given to something else; the same record again is no error. */
  create(record: VolumeRecord, signal: AbortSignal): Promise<void>;
  /** In no particular order. */
  list(signal: AbortSignal): Promise<VolumeRecord[]>;
  /** No error when there is none. */
  delete(name: string, signal: AbortSignal): Promise<void>;
}

export interface CatalogEntry {
  /** Bytes of the present revision. */
  bytes: bigint;
  /** True when there is a revision that can be mounted. */
  ready: boolean;
  /** Why not, in a sentence of the agent's. */
  message: string;
}

/** The datasets of one cluster. */
export interface DatasetCatalog {
  /** Name of the StorageCluster. */
  cluster(signal: AbortSignal): Promise<string>;
  /** By `NAMESPACE.NAME`; undefined when the agents do not know it. */
  find(dataset: string, signal: AbortSignal): Promise<CatalogEntry | undefined>;
}

/** Both over the control API of a cluster's agents. */
export class ControlRegistry implements VolumeRegistry, DatasetCatalog {
  readonly #control: ControlCalls;
  #cluster: string | undefined;

  /** `cluster`: its name, if the caller knows it; else the agent is asked. */
  constructor(control: ControlCalls, cluster?: string) {
    this.#control = control;
    this.#cluster = cluster;
  }

  async get(name: string, signal: AbortSignal): Promise<VolumeRecord | undefined> {
    return await unlessMissing(this.#control.call('getVolume', { name }, { signal }));
  }

  async create(record: VolumeRecord, signal: AbortSignal): Promise<void> {
    await this.#control.call('createVolume', { ...record }, { signal });
  }

  async list(signal: AbortSignal): Promise<VolumeRecord[]> {
    return (await this.#control.call('listVolumes', {}, { signal })).volumes;
  }

  async delete(name: string, signal: AbortSignal): Promise<void> {
    await unlessMissing(this.#control.call('deleteVolume', { name }, { signal }));
  }

  async cluster(signal: AbortSignal): Promise<string> {
    this.#cluster ??= (await this.#control.call('getStatus', {}, { signal })).cluster;
    return this.#cluster;
  }

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
