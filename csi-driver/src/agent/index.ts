export type { CallName, ControlCalls, RequestOf, ResponseOf } from './control_calls.ts';
export { type NodeAgent, NodeAgents, type NodeAgentsOptions } from './node_agents.ts';
export { knock } from './socket_calls.ts';
