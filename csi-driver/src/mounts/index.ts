export type { MountCalls, Restrictions } from './mount_calls.ts';
export { isReadOnly, isRestricted, isWriteProtected, type MountEntry, mountAt, showSame } from './mount_table.ts';
export { SystemMounts } from './system_mounts.ts';
export { normalTarget } from './target_folder.ts';
