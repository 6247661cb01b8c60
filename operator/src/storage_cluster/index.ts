/** StorageClusters: agents and holders, the store, certificates, and the state of each node. */
export { type Environment, plainPods, readEnvironment } from './environment.ts';
export { ownedTypes } from './owned_objects.ts';
export { type PodState, podState } from './pod_state.ts';
export { runStorageClusterController } from './storage_cluster_controller.ts';
