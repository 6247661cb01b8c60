import { readFile } from 'node:fs/promises';

/** Of a mount besides `nosuid` and `nodev`; it is read-only unless `writable`. */
export type Restrictions = { noexec: boolean; writable?: boolean };

/**
 * The seam under all changes of mounts and targets. Targets are absolute paths below the kubelet's directory, without
 * symbolic links. No call but `space` and `shareWith` asks a mounted file system, since a dead mount would hang. Each call may be the last
 * before a crash, and is idempotent except for `bind`, `bindOver`, `bar` and `overlay`, which add a mount.
 */
export interface MountCalls {
  table(): Promise<MountEntry[]>;
  /** The target as in the table; undefined without its parent. Throws `INVALID_ARGUMENT` for an invalid target. */
  resolve(target: string): Promise<string | undefined>;
  /** Creates the directory; an existing one must be empty. */
  makeTarget(target: string): Promise<void>;
  /** Later mounts over the source, or over its other binds, do not propagate to the target. */
  bind(source: string, target: string, restrictions: Restrictions): Promise<void>;
  /** Like `bind`, over a dead mount: containers with HostToContainer would miss a mount after an unmount. */
  bindOver(source: string, target: string, restrictions: Restrictions): Promise<void>;
  /**
   * Mounts a barrier (`isBarrier`) over a dead mount. The kernel answers a look at a dead root from its cache, so a
   * container would start with the dead mount for good.
   */
  bar(target: string): Promise<void>;
  /** True when the FUSE mount has lost its server, which is final; false when it does not answer in time. */
  isDead(path: string): Promise<boolean>;
  /**
   * Like `bind`, through an overlay without a writable layer, which stays read-only for good. With SELinux all of it has
   * a label that every container may read.
   */
  overlay(source: string, target: string, restrictions: Restrictions): Promise<void>;
  /** Mounts a tmpfs of at most 1 MiB, without programs and devices. `group` as in `replace`. */
  memory(target: string, group: number | undefined): Promise<void>;
  /** Lets every container use the sockets in a directory of the node; needed with SELinux alone. */
  shareSockets(directory: string): Promise<void>;
  /** Replaces entries in a target of `memory` by rename(2), readable by the group, or by all. Follows no links. */
  replace(target: string, entries: readonly FolderEntry[], group: number | undefined): Promise<void>;
  space(target: string): Promise<Space>;
  /** Lets a group write into the root of what is mounted at the target; what it makes there belongs to the group. */
  shareWith(target: string, group: number): Promise<void>;
  /** Puts the restrictions on the mount, which also has no set-user-id programs and devices from then on. */
  restrict(target: string, restrictions: Restrictions): Promise<void>;
  unmount(target: string): Promise<void>;
  /** Removes an empty directory, if present. */
  removeTarget(target: string): Promise<void>;
}

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
  device: string;
  type: string;
  /** The directory of the file system at the mount point. */
  root: string;
  mountPoint: string;
  /** Options of this mount alone, such as `ro`, `nosuid`. */
  options: string[];
  superOptions: string[];
}

export function parseMountInfo(text: Buffer): MountEntry[] {
  return text
    .toString('latin1')
    .split('\n')
    .map(parseLine)
    .filter((entry) => entry !== undefined);
}

/** The topmost mount at a path. */
export function mountAt(table: readonly MountEntry[], path: string): MountEntry | undefined {
  const stack = table.filter((entry) => entry.mountPoint === path);
  return stack.find((entry) => !stack.some((other) => other.parent === entry.id));
}

export function showSame(a: MountEntry, b: MountEntry): boolean {
  return a.device === b.device && a.root === b.root;
}

/** The file system type of barriers in mountinfo. */
export const barrierType = 'fuse.hearth-lost';

/** True for a mount that fails every access, at its root too, with ENOTCONN, so that no container starts with it. */
export function isBarrier({ type }: MountEntry): boolean {
  return type === barrierType;
}

/**
 * True for a mount whose files have SELinux labels of their own (`seclabel`, security/selinux/hooks.c). Container runtimes
 * give such a volume the label of one pod, or fail, since it is read-only.
 */
export function hasLabels(entry: MountEntry): boolean {
  return entry.superOptions.includes('seclabel');
}

/** The mount's own options, of mount(8). */
export function optionsOf({ noexec, writable }: Restrictions): string[] {
  return [writable ? 'rw' : 'ro', 'nosuid', 'nodev', ...(noexec ? ['noexec'] : [])];
}

/** True when pods may use the mount. */
export function isRestricted(entry: MountEntry, restrictions: Restrictions): boolean {
  return optionsOf(restrictions).every((one) => entry.options.includes(one));
}

/** A read-only file system, or a mount without owners (mount_setattr(2), MOUNT_ATTR_IDMAP): no flag allows writes. */
export function isWriteProtected(entry: MountEntry): boolean {
  return entry.superOptions.includes('ro') || entry.options.includes('idmapped');
}

/**
 * True when a container runtime can map the ids of the mount, as it does for pods with `hostUsers: false`: the kernel
 * maps no mount twice, and no overlay (fs/namespace.c, can_idmap_mount).
 */
export function isMappable(entry: MountEntry): boolean {
  return entry.type !== 'overlay' && !entry.options.includes('idmapped');
}

/** Reads until two readings agree: before Linux 5.8 concurrent changes could hide entries of a large table. */
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

/** The kernel escapes blanks, tabs, line feeds, backslashes and `#` as three octal digits. */
function decodeField(field: string): string {
  const bytes = field.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
  return Buffer.from(bytes, 'latin1').toString('utf8');
}
