/** Volumes for claims whose dataSourceRef names a Dataset. */
export { classView, type PendingClaim, pendingClaim } from './claim.ts';
export { runProvisioner } from './provisioner_controller.ts';
export { type VolumeView, volumeView } from './volume_reconciler.ts';
