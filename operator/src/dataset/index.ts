/** Datasets: registered at the agents of their cluster, with credentials, and their state written to the status. */
export { runDatasetController } from './dataset_controller.ts';
export { type Uses, usesOfPod, usesOfVolume } from './users.ts';
