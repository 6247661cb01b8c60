import type { MountEntry } from './mount_table.ts';

export interface Restrictions {
  noexec: boolean;
}

/**
 * The seam under everything that changes mounts and target folders. Targets are absolute paths below the kubelet's
 * folder; a symbolic link below it is never followed. Nothing here touches what is mounted: a dead mount would hang.
 * Each call is one step that may be the last before a crash, and making it again is harmless, but for `bind`, `bindOver`
 * and `overlay`, which put one mount over another.
 */
export interface MountCalls {
  table(): Promise<MountEntry[]>;
  /** The target as the table names it. `INVALID_ARGUMENT` when it cannot be a target; undefined without its parent. */
  resolve(target: string): Promise<string | undefined>;
  /** Makes the folder; one that is there must be empty. */
  makeTarget(target: string): Promise<void>;
  /** What is mounted over the source, or over what else was bound from it, later or by then, is not seen at the target. */
  bind(source: string, target: string, restrictions: Restrictions): Promise<void>;
  /**
   * As `bind`, over a mount of which nothing may be asked any more, and which stays below: containers that were given
   * it with HostToContainer see what is mounted over it, and nothing of what is mounted after it was unmounted.
   */
  bindOver(source: string, target: string, restrictions: Restrictions): Promise<void>;
  /** As `bind`, but through an overlay without a writable layer: a file system that is read-only for good. */
  overlay(source: string, target: string, restrictions: Restrictions): Promise<void>;
  /** Makes the mount at the target read-only, without set-user-id programs and devices. */
  restrict(target: string, restrictions: Restrictions): Promise<void>;
  /** Takes the uppermost mount away. */
  unmount(target: string): Promise<void>;
  /** Removes the folder, if it is there. Never what is in it. */
  removeTarget(target: string): Promise<void>;
}
