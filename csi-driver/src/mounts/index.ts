export {
  isBarrier,
  isReadOnly,
  isRestricted,
  isWriteProtected,
  type MountCalls,
  type MountEntry,
  mountAt,
  showSame,
} from './mount_calls.ts';
export { SystemMounts } from './system_mounts.ts';
export { normalTarget } from './target_folder.ts';
