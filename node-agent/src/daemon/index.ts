/** An agent as a process: what it opens, in which order, and how it ends. */
export { type RunningAgent, type RunOptions, runAgent } from './run_agent.ts';
