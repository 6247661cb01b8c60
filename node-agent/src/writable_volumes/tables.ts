import { randomBytes } from 'node:crypto';
import type { Logger } from '@hearth/common';
import { Mirror, RecordTable, TableWatch } from '../records/index.ts';
import type { CallOptions, Store } from '../store/index.ts';
import {
  deletedVolumeSchema,
  storeIdSchema,
  type VolumeLeaderRecord,
  volumeLeaderSchema,
  type WritableVolumeRecord,
  writableVolumeSchema,
} from './record.ts';

/** The records of writable volumes, and what this agent has seen of them. All mirrors show the same revision. */
export class WritableVolumeTables {
  readonly store: Store;
  readonly volumes;
  readonly leaders;
  readonly deleted;
  readonly volumesMirror;
  readonly leadersMirror;
  readonly deletedMirror;
  readonly #storeIds;

  constructor(store: Store, logger: Logger) {
    this.store = store;
    this.volumes = new RecordTable(store, 'writable/volumes/', writableVolumeSchema);
    this.leaders = new RecordTable(store, 'writable/leaders/', volumeLeaderSchema);
    this.deleted = new RecordTable(store, 'writable/deleted/', deletedVolumeSchema);
    this.#storeIds = new RecordTable(store, 'writable/store/', storeIdSchema);
    const watch = new TableWatch(store, 'writable/', logger);
    this.volumesMirror = new Mirror(this.volumes, logger, watch);
    this.leadersMirror = new Mirror(this.leaders, logger, watch);
    this.deletedMirror = new Mirror(this.deleted, logger, watch);
  }

  async ready(signal: AbortSignal): Promise<void> {
    await Promise.all([this.volumesMirror, this.leadersMirror, this.deletedMirror].map((one) => one.ready(signal)));
  }

  /** Sorted by name. */
  list(): WritableVolumeRecord[] {
    return this.volumesMirror.values().sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  leaderOf(id: string): VolumeLeaderRecord | undefined {
    return this.leadersMirror.get(id);
  }

  /** The id of the store; the first caller of all agents chooses it. */
  async storeId(options?: CallOptions): Promise<string> {
    const chosen = { id: randomBytes(16).toString('hex') };
    const record = await this.#storeIds.update(
      'id',
      (present) => (present === undefined ? chosen : undefined),
      options,
    );
    return record?.id ?? chosen.id;
  }

  /** Calls the listener after a change of any record. Returns a function that unsubscribes. */
  onChange(listener: () => void): () => void {
    const changed = (changes: readonly unknown[]) => {
      if (changes.length > 0) listener();
    };
    const ends = [this.volumesMirror, this.leadersMirror, this.deletedMirror].map((one) => one.onChange(changed));
    return () => {
      for (const end of ends) end();
    };
  }

  /** Ends the watch that the mirrors share. */
  async close(): Promise<void> {
    await this.volumesMirror.close();
  }
}
