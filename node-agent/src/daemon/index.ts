/** An agent process: startup in order of dependence, and shutdown. */
export { type RunningAgent, type RunOptions, runAgent } from './run_agent.ts';
