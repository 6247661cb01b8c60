export {
  type FolderEntry,
  hasLabels,
  isBarrier,
  isMappable,
  isRestricted,
  isWriteProtected,
  type MountCalls,
  type MountEntry,
  mountAt,
  type Space,
  showSame,
} from './mount_calls.ts';
export { SystemMounts } from './system_mounts.ts';
export { normalTarget } from './target_folder.ts';
export { maxMounts, mountAtTarget, removeMounted, unmountAll } from './target_mounts.ts';
