/** StorageClusters: agents and holders, the store, certificates, connections to agents, and the state of each node. */
export { connectAgents } from './agent_links.ts';
export { type Environment, plainPods, readEnvironment } from './environment.ts';
export { ownedTypes } from './owned_objects.ts';
export { type PodState, podState } from './pod_state.ts';
export { runStorageClusterController } from './storage_cluster_controller.ts';
