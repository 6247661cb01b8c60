/** The control API of the agents, cluster by cluster. */
export type { AgentEndpoint, ClientIdentity } from './agent_connection.ts';
export { AgentDirectory } from './agent_directory.ts';
export * from './agents.ts';
export { isAway } from './call_error.ts';
export { nodesWithout, sameNodesWithout } from './cluster_status.ts';
