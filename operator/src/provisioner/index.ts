/** Volumes for claims of Datasets, and scratch volumes. */
export { classView, type PendingClaim, pendingClaim } from './claim.ts';
export { type GrowingClaim, growingClaim } from './claim_growth.ts';
export { runProvisioner } from './provisioner_controller.ts';
export { type VolumeView, volumeView } from './volume_reconciler.ts';
