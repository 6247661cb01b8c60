import { readFile } from 'node:fs/promises';

export interface Restrictions {
  noexec: boolean;
}

/**
 * The seam under everything that changes mounts and target folders. Targets are absolute paths below the kubelet's
 * folder; a symbolic link below it is never followed. Nothing here touches what is mounted: a dead mount would hang.
 * Each call is one step that may be the last before a crash, and making it again is harmless, but for `bind`, `bindOver`,
 * `bar` and `overlay`, which put one mount over another.
 */
export interface MountCalls {
  table(): Promise<MountEntry[]>;
  /** The target as the table names it. `INVALID_ARGUMENT` when it cannot be a target; undefined without its parent. */
  resolve(target: string): Promise<string | undefined>;
  /** Makes the folder; one that is there must be empty. */
  makeTarget(target: string): Promise<void>;
  /** The target does not show mounts over the source, or over other mounts bound from it, made by then or later. */
  bind(source: string, target: string, restrictions: Restrictions): Promise<void>;
  /**
   * As `bind`, over a mount of which nothing may be asked any more, and which stays below: containers that were given it
   * with HostToContainer see what is mounted over it, and nothing of what is mounted after it was unmounted.
   */
  bindOver(source: string, target: string, restrictions: Restrictions): Promise<void>;
  /**
   * Mounts a barrier over a dead mount, see `isBarrier`. The kernel answers from its cache a look at the root of a mount whose
   * server is gone; a container runtime takes that for a folder, and the container then has the dead mount for good.
   */
  bar(target: string): Promise<void>;
  /**
   * True when the server of the FUSE mount at a path is gone, which is for ever. Asks in a child process: a mount that does
   * not answer within the deadline is not dead.
   */
  isDead(path: string): Promise<boolean>;
  /** As `bind`, but through an overlay without a writable layer: a file system that is read-only for good. */
  overlay(source: string, target: string, restrictions: Restrictions): Promise<void>;
  /** Mounts a file system in memory, at most 1 MiB, without programs and devices. `group` as in `replace`. */
  memory(target: string, group: number | undefined): Promise<void>;
  /**
   * Makes entries in the folder at a target that `memory` has mounted, or replaces them, each by rename(2), so that readers
   * see the former or the new one. The group may read them, or every user where there is none. Follows no link.
   */
  replace(target: string, entries: readonly FolderEntry[], group: number | undefined): Promise<void>;
  /** Room of a file system that `memory` has mounted at a target. */
  space(target: string): Promise<Space>;
  /** Makes the mount at the target read-only, without set-user-id programs and devices. */
  restrict(target: string, restrictions: Restrictions): Promise<void>;
  /** Unmounts the uppermost mount. */
  unmount(target: string): Promise<void>;
  /** Removes the folder, if it is there. Never what is in it. */
  removeTarget(target: string): Promise<void>;
}

/** A file with its text, or a symbolic link. */
export type FolderEntry = { name: string; text: string } | { name: string; link: string };

export interface Space {
  bytes: bigint;
  bytesFree: bigint;
  files: bigint;
  filesFree: bigint;
}

/** One line of /proc/self/mountinfo (proc_pid_mountinfo(5)). */
export interface MountEntry {
  id: number;
  parent: number;
  /** `major:minor` of the file system. */
  device: string;
  /** As `ext4`, `fuse.hearth`. */
  type: string;
  /** The folder of the file system that is seen at the mount point. */
  root: string;
  mountPoint: string;
  /** Of this mount alone, as `ro`, `nosuid`. */
  options: string[];
  /** Of the file system, which all its mounts share. */
  superOptions: string[];
}

/** Lines that are cut off or malformed are left out: the kernel writes none. */
export function parseMountInfo(text: Buffer): MountEntry[] {
  return text
    .toString('latin1')
    .split('\n')
    .map(parseLine)
    .filter((entry) => entry !== undefined);
}

/** The visible mount at a path: of mounts one over another the uppermost. */
export function mountAt(table: readonly MountEntry[], path: string): MountEntry | undefined {
  const there = table.filter((entry) => entry.mountPoint === path);
  return there.find((entry) => !there.some((other) => other.parent === entry.id));
}

/** True when two mounts show the same folder of the same file system. */
export function showSame(a: MountEntry, b: MountEntry): boolean {
  return a.device === b.device && a.root === b.root;
}

/** Type of the file systems that `bar` mounts; mountinfo shows it. */
export const barrierType = 'fuse.hearth-lost';

/** True for a mount that fails every look, at its root too, with ENOTCONN: no container starts with it. */
export function isBarrier({ type }: MountEntry): boolean {
  return type === barrierType;
}

export function isReadOnly(entry: MountEntry): boolean {
  return entry.options.includes('ro');
}

/** True when pods may get the mount: read-only, without set-user-id programs and devices. */
export function isRestricted(entry: MountEntry, { noexec }: { noexec: boolean }): boolean {
  return ['ro', 'nosuid', 'nodev', ...(noexec ? ['noexec'] : [])].every((one) => entry.options.includes(one));
}

/**
 * True when nobody can write through this mount, whatever happens to its flags: the file system itself is read-only, or
 * the mount maps no owner of files (mount_setattr(2), MOUNT_ATTR_IDMAP).
 */
export function isWriteProtected(entry: MountEntry): boolean {
  return entry.superOptions.includes('ro') || entry.options.includes('idmapped');
}

/**
 * The mounts that this process sees. Before Linux 5.8 a table of more than a page could miss entries while others
 * came and went, so it is read until two readings agree, at most five times.
 */
export async function readMountTable(): Promise<MountEntry[]> {
  let last = await readFile('/proc/self/mountinfo');
  for (let reading = 1; reading < 5; reading++) {
    const next = await readFile('/proc/self/mountinfo');
    if (next.equals(last)) break;
    last = next;
  }
  return parseMountInfo(last);
}

function parseLine(line: string): MountEntry | undefined {
  const fields = line.split(' ');
  const [id, parent, device, root, mountPoint, options] = fields;
  if (id === undefined || parent === undefined || device === undefined) return undefined;
  if (root === undefined || mountPoint === undefined || options === undefined) return undefined;
  return {
    id: Number(id),
    parent: Number(parent),
    device,
    type: fields.at(-3) ?? '',
    root: decodeField(root),
    mountPoint: decodeField(mountPoint),
    options: options.split(','),
    superOptions: (fields.at(-1) ?? '').split(','),
  };
}

/** The kernel writes blanks, tabs, line feeds, backslashes and `#` as three octal digits; the rest are bytes of UTF-8. */
function decodeField(field: string): string {
  const bytes = field.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
  return Buffer.from(bytes, 'latin1').toString('utf8');
}
