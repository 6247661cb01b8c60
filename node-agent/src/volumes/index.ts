export { type Published, VolumeMounts } from './volume_mounts.ts';
export { type VolumeRecord, VolumeRegistry } from './volume_registry.ts';
