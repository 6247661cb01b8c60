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
