export { type RunOptions, runAgent } from './daemon/index.ts';
