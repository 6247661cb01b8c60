/** Writable volumes: their records, their leaders, and the engine's view of both. */
export { volumeFigures } from './figures.ts';
export { VolumeReconciler } from './reconciler.ts';
export type { VolumeLeaderRecord, WritableVolumeRecord } from './record.ts';
export { type VolumeStanding, volumeStanding } from './standing.ts';
export { WritableVolumeTables } from './tables.ts';
export { WritableVolumes } from './volume_registry.ts';
