/** Real agents, their holder and their store as processes on this machine. */
export { AgentProcess, type AgentSettings, tailsFolder } from './agent_process.ts';
export { Cluster } from './cluster.ts';
