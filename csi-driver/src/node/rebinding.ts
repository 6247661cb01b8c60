import { join } from 'node:path';
import { isBarrier, isRestricted, type MountCalls, type MountEntry, mountAt, showSame } from '../mounts/index.ts';
import { type LookParts, RecurringLook } from '../recurring_look.ts';
import type { PublishedRecord, PublishedRecords } from './published_records.ts';

/** The repair of a published volume whose agent lost its mounts; `noexec` as the pod was given it. */
export type Remedy =
  | { kind: 'none' }
  /** Bound again by a process that died before it forbade what pods may not do. */
  | { kind: 'restrict'; present: MountEntry; noexec: boolean }
  /**
   * Here already: what the release before has bound from one mount has in common what is mounted over it, so the first
   * brings it to all.
   */
  | { kind: 'came'; source: MountEntry; present: MountEntry; noexec: boolean }
  /** `source` is the agent's present mount; `layers`: how many mounts lie at the target. */
  | { kind: 'bind'; source: MountEntry; layers: number; noexec: boolean };

const none: Remedy = { kind: 'none' };

/**
 * `path` is the record's target as the table names it, `agentMounts` the folder of the agent's mounts. Views have no
 * server to lose, and a volume whose agent has no mount of its revision yet waits for that.
 */
export function remedyOf(
  record: PublishedRecord,
  path: string,
  table: readonly MountEntry[],
  agentMounts: string,
): Remedy {
  if (record.dataPath === 'view') return none;
  const layers = table.filter((entry) => entry.mountPoint === path);
  const present = mountAt(layers, path);
  if (present === undefined) return none;
  const noexec = record.noexec ?? layers.some(({ options }) => options.includes('noexec'));
  const folder = `${agentMounts}/${record.manifest}/`;
  const shown = table.find((entry) => entry.mountPoint.startsWith(folder) && showSame(entry, present));
  if (shown !== undefined) {
    if (layers.length > 1 && record.reboundTo !== shown.device) return { kind: 'came', source: shown, present, noexec };
    return record.reboundAt === undefined || isRestricted(present, { noexec })
      ? none
      : { kind: 'restrict', present, noexec };
  }
  const source = mountAt(table, `${folder}fuse-${record.dataset}`);
  if (source === undefined) return none;
  // Until an agent is back its dead mount is still in the table: bound over the barrier it would let containers start.
  const isStillDead = isBarrier(present) && layers.some((layer) => showSame(layer, source));
  return isStillDead ? none : { kind: 'bind', source, layers: layers.length, noexec };
}

export interface RebindingParts extends LookParts {
  stateDirectory: string;
  records: Pick<PublishedRecords, 'all'>;
  mounts: Pick<MountCalls, 'table' | 'resolve'>;
  /** As `Publications.rebind`, alone for its target; `agentMounts` is the folder of the agent's mounts. */
  rebind: (cluster: string, target: string, agentMounts: string, at: Date) => Promise<boolean>;
}

/**
 * An agent that has lost its FUSE mounts, because its holder went with it, makes them again, and what is bound into pods
 * is dead. This looks for mounts of agents that were made again, and has the targets bound again.
 */
export class Rebinding extends RecurringLook {
  readonly #parts: RebindingParts;
  /** All mounts at the last look at which nothing was left to do. */
  #seen = '';

  constructor(parts: RebindingParts) {
    super(parts, 'a volume that lost its mount is not bound again yet');
    this.#parts = parts;
  }

  /**
   * Reads the table of mounts once, however many volumes there are; only those that lack something are looked at more
   * closely.
   */
  protected async mend(): Promise<void> {
    const table = await this.#parts.mounts.table();
    const now = summary(table);
    if (now === this.#seen) return;
    const failures: unknown[] = [];
    await this.#bindDead(table, failures);
    if (failures.length > 0) throw failures[0];
    this.#seen = now;
  }

  async #bindDead(table: readonly MountEntry[], failures: unknown[]): Promise<void> {
    const { mounts, records, rebind, stateDirectory } = this.#parts;
    const at = this.clock.date();
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
export function summary(table: readonly MountEntry[]): string {
  return table.map(({ id, device, mountPoint }) => `${id} ${device} ${mountPoint}`).join('\n');
}
