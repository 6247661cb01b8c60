import { join } from 'node:path';
import { HearthError, type Logger } from '@hearth/common';
import type { MountCalls, MountEntry } from '../mounts/index.ts';
import type { PublishedRecords } from '../published/index.ts';
import { remedyOf } from './dead_mount.ts';

export interface RebindingParts {
  stateDirectory: string;
  records: Pick<PublishedRecords, 'all'>;
  mounts: Pick<MountCalls, 'table' | 'resolve'>;
  /** As `Publications.rebind`, alone for its target; `agentMounts` is the folder of the agent's mounts. */
  rebind: (cluster: string, target: string, agentMounts: string, at: Date) => Promise<boolean>;
  /** Milliseconds between looks. */
  everyMs: number;
  logger: Logger;
}

/**
 * An agent that has lost its FUSE mounts, because its holder went with it, makes them again, and what is bound into
 * pods is dead. This looks for mounts of agents that were made again, and has the targets bound again.
 */
export class Rebinding {
  readonly #parts: RebindingParts;
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> = Promise.resolve();
  /** All mounts at the last look at which nothing was left to do. */
  #seen = '';
  #complaint = '';

  constructor(parts: RebindingParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#timer = setTimeout(() => {
      this.#looking = this.look().finally(() => {
        if (this.#timer !== undefined) this.start();
      });
    }, this.#parts.everyMs).unref();
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    await this.#looking;
  }

  /**
   * Never fails: what cannot be bound is tried again by the next look, and logged once. A look reads the table of
   * mounts once, however many volumes there are; only those that lack something are looked at more closely.
   */
  async look(): Promise<void> {
    const { mounts, logger } = this.#parts;
    try {
      const table = await mounts.table();
      const now = summary(table);
      if (now === this.#seen) return;
      const failures: unknown[] = [];
      await this.#bindDead(table, failures);
      if (failures.length > 0) throw failures[0];
      this.#seen = now;
      this.#complaint = '';
    } catch (thrown) {
      const error = HearthError.from(thrown);
      if (error.message !== this.#complaint)
        logger.warn('a volume that lost its mount is not bound again yet', { error });
      this.#complaint = error.message;
    }
  }

  async #bindDead(table: readonly MountEntry[], failures: unknown[]): Promise<void> {
    const { mounts, records, rebind, stateDirectory } = this.#parts;
    const at = new Date();
    for (const { cluster, record } of await records.all()) {
      if (record === undefined || record.dataPath === 'view') continue;
      const agentMounts = join(stateDirectory, cluster, 'mounts');
      try {
        const path = await mounts.resolve(record.target);
        if (path === undefined || remedyOf(record, path, table, agentMounts).kind === 'none') continue;
        await rebind(cluster, record.target, agentMounts, at);
      } catch (thrown) {
        failures.push(thrown);
      }
    }
  }
}

/**
 * Another text when a mount has come, gone or been made again: an agent's, or that of a volume. Volumes of the release
 * before share what is mounted over them, and lose it with the first that is unpublished.
 */
function summary(table: readonly MountEntry[]): string {
  return table.map(({ id, device, mountPoint }) => `${id} ${device} ${mountPoint}`).join('\n');
}
