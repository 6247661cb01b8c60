/** StorageClusters: what runs on their nodes, the store, certificates, and how each node is. */
export { type Environment, readEnvironment } from './environment.ts';
export { type OwnedSources, ownedTypes } from './owned_objects.ts';
export { type PodState, podState } from './pod_state.ts';
export { runStorageClusterController, type StorageClusterControllerOptions } from './storage_cluster_controller.ts';
