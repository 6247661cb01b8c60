/** StorageClusters: what runs on their nodes, the store, certificates, and how each node is. */
export { type Environment, readEnvironment } from './environment.ts';
export { componentLabel, labelsOfOperator, ownedSelector } from './names.ts';
export { hasLabels, type NodeFacts, nodeFacts } from './node_facts.ts';
export { hashOf } from './objects/desired_object.ts';
export { type OwnedSources, ownedTypes, type Source } from './owned_objects.ts';
export { type Place, placeNodes } from './placement.ts';
export { Placements } from './placements.ts';
export { type PodState, podState } from './pod_state.ts';
export { runStorageClusterController, type StorageClusterControllerOptions } from './storage_cluster_controller.ts';
