/** Volumes for claims whose dataSourceRef names a Dataset. */
export { type PendingClaim, pendingClaim } from './claim.ts';
export { runProvisioner } from './provisioner_controller.ts';
export { classView } from './storage_class.ts';
export { type VolumeView, volumeView } from './volume_plan.ts';
