import { join } from 'node:path';
import { isBarrier, isRestricted, type MountCalls, type MountEntry, mountAt, showSame } from '../mounts/index.ts';
import { type CheckParts, PeriodicCheck } from '../periodic_check.ts';
import type { PublishedRecord, PublishedRecords } from './published_records.ts';

/** The repair of a volume whose agent lost its mounts. `noexec` as at the first publish. */
export type Remedy =
  | { kind: 'none' }
  /** A process died between bind and restriction. */
  | { kind: 'restrict'; present: MountEntry; noexec: boolean }
  /** Mounts of the previous release share a peer group, so the first rebinding reached them all. */
  | { kind: 'propagated'; source: MountEntry; present: MountEntry; noexec: boolean }
  /** `source`: the agent's present mount; `layers`: the number of stacked mounts. */
  | { kind: 'bind'; source: MountEntry; layers: number; noexec: boolean };

const none: Remedy = { kind: 'none' };

/** `path`: the record's target in the table; `agentMounts`: the directory of the agent's mounts. */
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
    if (layers.length > 1 && record.reboundTo !== shown.device)
      return { kind: 'propagated', source: shown, present, noexec };
    return record.reboundAt === undefined || isRestricted(present, { noexec, writable: record.writable ?? false })
      ? none
      : { kind: 'restrict', present, noexec };
  }
  const source = mountAt(table, `${folder}fuse-${record.dataset}`);
  if (source === undefined) return none;
  // A returning agent's dead mount may still be in the table; bound over the barrier it would let containers start.
  const isStillDead = isBarrier(present) && layers.some((layer) => showSame(layer, source));
  return isStillDead ? none : { kind: 'bind', source, layers: layers.length, noexec };
}

export interface RebindingParts extends CheckParts {
  stateDirectory: string;
  records: Pick<PublishedRecords, 'all'>;
  mounts: Pick<MountCalls, 'table' | 'resolve'>;
  /** See `Publications.rebind`; holds the lock of the target. */
  rebind: (cluster: string, target: string, agentMounts: string, at: Date) => Promise<boolean>;
}

/** Finds mounts that an agent created again after the loss of its holder, and has dead targets bound to them. */
export class Rebinding extends PeriodicCheck {
  readonly #parts: RebindingParts;
  /** All mounts at the last check that left nothing to do. */
  #seen = '';

  constructor(parts: RebindingParts) {
    super(parts, 'a volume that lost its mount is not bound again yet');
    this.#parts = parts;
  }

  /** Reads the table once and examines only volumes that lack something. */
  protected async repair(): Promise<void> {
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

/** Changes whenever a mount appears, disappears or is replaced. */
export function summary(table: readonly MountEntry[]): string {
  return table.map(({ id, device, mountPoint }) => `${id} ${device} ${mountPoint}`).join('\n');
}
