/** The control API of the agents, cluster by cluster. */
export { type AgentEndpoint, type ClientIdentity, isAway } from './agent_connection.ts';
export { AgentDirectory } from './agent_directory.ts';
export * from './agents.ts';
