/** Datasets: registers them at the agents of their cluster and writes their status. */
export type { AwaitedReason } from './assessment.ts';
export { runDatasetController } from './dataset_controller.ts';
export { type Uses, usesOfPod, usesOfVolume } from './users.ts';
