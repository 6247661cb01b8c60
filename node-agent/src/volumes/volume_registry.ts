import { HearthError } from '@hearth/common';
import { z } from 'zod';
import { checkName } from '../datasets/index.ts';
import { RecordTable, unsigned } from '../records/index.ts';
import type { CallOptions, Store } from '../store/index.ts';

/** `volumes/<name>`: the dataset and revision of a volume. */
export const volumeSchema = z.object({
  name: z.string(),
  dataset: z.string(),
  capacityBytes: unsigned,
  /** '' when the volume follows its dataset, else its pinned revision. */
  manifest: z.string(),
});
export type VolumeRecord = z.output<typeof volumeSchema>;

/** The volumes of the cluster. A record is a promise only; mounts are recorded elsewhere. */
export class VolumeRegistry {
  readonly #table;

  constructor(store: Store) {
    this.#table = new RecordTable(store, 'volumes/', volumeSchema);
  }

  /** Idempotent for an equal volume; throws `AlreadyExists` when the name belongs to a different volume. */
  async create(volume: VolumeRecord, options?: CallOptions): Promise<VolumeRecord> {
    checkName('volume', volume.name);
    checkName('dataset', volume.dataset);
    if (volume.manifest !== '' && !/^[0-9a-f]{64}$/.test(volume.manifest)) {
      throw new HearthError('InvalidArgument', 'a revision is named by the 64 hexadecimal digits of its manifest');
    }
    // Returning undefined keeps the existing record.
    const present = await this.#table.update(
      volume.name,
      (found) => (found === undefined ? volume : undefined),
      options,
    );
    if (present !== undefined && isSame(present, volume)) return present;
    throw new HearthError(
      'AlreadyExists',
      `volume ${volume.name} was made for dataset ${present?.dataset} with ${present?.capacityBytes} bytes; choose another name, or delete it first`,
    );
  }

  async get(name: string, options?: CallOptions): Promise<VolumeRecord> {
    const row = await this.#table.read(name, options);
    if (row !== undefined) return row.value;
    throw new HearthError('NotFound', `there is no volume ${name}`);
  }

  /** Sorted by name, bytewise. An unreadable record is an error, because it must not look like a deleted volume. */
  async list(options?: CallOptions): Promise<VolumeRecord[]> {
    const { rows } = await this.#table.list((error) => {
      throw error;
    }, options);
    return rows.map((row) => row.value);
  }

  /** Not an error when there is no such volume. */
  async delete(name: string, options?: CallOptions): Promise<void> {
    await this.#table.delete(name, options);
  }
}

function isSame(a: VolumeRecord, b: VolumeRecord): boolean {
  return a.dataset === b.dataset && a.capacityBytes === b.capacityBytes && a.manifest === b.manifest;
}
