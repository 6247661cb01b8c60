export type { Published } from './published_revision.ts';
export { VolumeMounts } from './volume_mounts.ts';
export { type VolumeRecord, VolumeRegistry } from './volume_registry.ts';
