/** The control API of the agents, cluster by cluster. */
export type { AgentEndpoint, ClientIdentity } from './agent_connection.ts';
export { AgentDirectory } from './agent_directory.ts';
export type {
  Agents,
  CallName,
  CallOptions,
  ClusterAgents,
  ClusterStatus,
  RequestOf,
  ResponseOf,
  StatusListener,
  StreamName,
} from './agents.ts';
