import { randomBytes } from 'node:crypto';
import { type Clock, epochMs, HearthError } from '@hearth/common';
import { checkName } from '../datasets/index.ts';
import type { Row } from '../records/index.ts';
import type { CallOptions, Operation } from '../store/index.ts';
import type { WritableVolumeRecord } from './record.ts';
import type { WritableVolumeTables } from './tables.ts';

const scratchDeadlineMs = 10_000;

export interface NewVolume {
  name: string;
  kind: string;
  /** 0: no limit. */
  maxBytes: bigint;
  maxFiles: bigint;
  /** Every operation of a mount ends within this time; none or 0: 10 seconds. */
  deadlineMs?: number;
}

/** The place of a new volume's log. */
export interface LogPlace {
  node: string;
  installation: string;
}

/** The writable volumes of the cluster. */
export class WritableVolumes {
  readonly #tables: WritableVolumeTables;
  readonly #clock: Clock;

  constructor(tables: WritableVolumeTables, clock: Clock) {
    this.#tables = tables;
    this.#clock = clock;
  }

  /** Idempotent for an equal volume; throws `AlreadyExists` when the name belongs to a volume with other limits. */
  async create(volume: NewVolume, log: LogPlace, options?: CallOptions): Promise<WritableVolumeRecord> {
    const { name, kind, maxBytes, maxFiles } = volume;
    const deadlineMs = volume.deadlineMs || scratchDeadlineMs;
    checkName('volume', name);
    if (kind !== 'scratch') {
      throw new HearthError('InvalidArgument', `"${kind}" is no kind of volume; this release has scratch volumes`);
    }
    const created: WritableVolumeRecord = {
      name,
      id: randomBytes(16).toString('hex'),
      store: await this.#tables.storeId(options),
      kind,
      maxBytes,
      maxFiles,
      deadlineMs,
      createdAt: epochMs(this.#clock),
      epoch: 0,
      logInstallation: log.installation,
      logNode: log.node,
      followers: [],
    };
    const record = await this.#tables.volumes.update(
      name,
      (present) => (present === undefined ? created : undefined),
      options,
    );
    const limits = record?.maxBytes === maxBytes && record.maxFiles === maxFiles && record.deadlineMs === deadlineMs;
    if (record?.kind === kind && limits) return record;
    throw new HearthError(
      'AlreadyExists',
      `volume ${name} was created with ${record?.maxBytes} bytes and ${record?.maxFiles} files as its limits and a deadline of ${record?.deadlineMs} ms; choose another name, or delete it first`,
    );
  }

  /**
   * Raises the limit of published bytes; engines follow when they see the record. Idempotent. Throws `NotFound`, and
   * `InvalidArgument` for a lower limit, which the present files may exceed.
   */
  async resize(name: string, maxBytes: bigint, options?: CallOptions): Promise<WritableVolumeRecord> {
    const record = await this.#tables.volumes.update(
      name,
      (present) => (present === undefined ? undefined : resized(present, maxBytes)),
      options,
    );
    return record ?? missing(name);
  }

  async get(name: string, options?: CallOptions): Promise<WritableVolumeRecord> {
    return (await this.#read(name, options)).value;
  }

  /** Sorted by name, bytewise. An unreadable record is an error, because it must not look like a deleted volume. */
  async list(options?: CallOptions): Promise<WritableVolumeRecord[]> {
    const { rows } = await this.#tables.volumes.list((error) => {
      throw error;
    }, options);
    return rows.map((row) => row.value);
  }

  /**
   * Deletes the volume and leaves a record by which every agent removes its files, also one that is away now. Throws
   * `NotFound`.
   */
  async delete(name: string, options?: CallOptions): Promise<void> {
    const { volumes, leaders, deleted, store } = this.#tables;
    for (let succeeded = false; !succeeded; ) {
      const { value, modRevision } = await this.#read(name, options);
      const { id } = value;
      const success: Operation[] = [
        { kind: 'delete', key: volumes.key(name) },
        { kind: 'delete', key: leaders.key(id) },
        deleted.putOperation(id, { id, name, deletedAt: epochMs(this.#clock) }),
      ];
      // A term that begins meanwhile changes the record.
      const compare = [{ key: volumes.key(name), modRevision }];
      ({ succeeded } = await store.transact({ compare, success }, options));
    }
  }

  async #read(name: string, options?: CallOptions): Promise<Row<WritableVolumeRecord>> {
    const row = await this.#tables.volumes.read(name, options);
    return row ?? missing(name);
  }
}

/** Undefined: the volume has this limit. */
function resized(present: WritableVolumeRecord, maxBytes: bigint): WritableVolumeRecord | undefined {
  const { name, maxBytes: before } = present;
  if (before === maxBytes) return undefined;
  if (before === 0n) {
    throw new HearthError('InvalidArgument', `volume ${name} has no limit of bytes, and volumes cannot shrink`);
  }
  if (maxBytes === 0n || maxBytes > before) return { ...present, maxBytes };
  throw new HearthError(
    'InvalidArgument',
    `volume ${name} is limited to ${before} bytes and cannot shrink to ${maxBytes}; delete files, or create another volume`,
  );
}

function missing(name: string): never {
  throw new HearthError('NotFound', `there is no volume ${name}; hearth volume ls lists all volumes`);
}
