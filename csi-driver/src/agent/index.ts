export type { ControlCalls } from './control_calls.ts';
export { type NodeAgent, NodeAgents } from './node_agents.ts';
export { NodeGroups } from './node_groups.ts';
