export { VolumeBook, type VolumeRecord } from './volume_book.ts';
export { type Published, VolumeMounts } from './volume_mounts.ts';
