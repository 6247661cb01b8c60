/** Datasets: registered at the agents of their cluster, with credentials, and their state written to the status. */
export { type DatasetControllerOptions, runDatasetController } from './dataset_controller.ts';
export { type DatasetUser, type Uses, usesOfPod, usesOfVolume } from './users.ts';
