export { type RunningAgent, type RunOptions, runAgent } from './daemon/index.ts';
