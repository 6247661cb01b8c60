export { type RunningAgent, type RunOptions, runAgent } from './agent/run_agent.ts';
