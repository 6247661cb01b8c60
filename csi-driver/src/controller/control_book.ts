import { HearthError } from '@hearth/common';
import type { ControlCalls } from '../agent/index.ts';
import type { CatalogEntry, DatasetCatalog, VolumeBook, VolumeRecord } from './volume_book.ts';

/** Both books over the control API of a cluster's agents. */
export class ControlBook implements VolumeBook, DatasetCatalog {
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
