import { isRestricted, type MountEntry, mountAt, showSame } from '../mounts/index.ts';
import type { PublishedRecord } from '../published/index.ts';

/** What a published volume lacks because its agent lost its mounts; `noexec` as the pod was given it. */
export type Remedy =
  | { kind: 'none' }
  /** Bound again by a process that died before it removed what pods may not do. */
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
  // The second name is that of agents of the release before.
  const source = mountAt(table, `${folder}fuse-${record.dataset}`) ?? mountAt(table, `${folder}fuse`);
  return source === undefined ? none : { kind: 'bind', source, layers: layers.length, noexec };
}
