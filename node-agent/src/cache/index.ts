/** The agent's cache directories before the engine opens them: usability and contents. */
export { budgetProbe } from './budget_probe.ts';
export { CacheCheck, type DirectoryFailure } from './cache_check.ts';
export { CacheWatch } from './cache_watch.ts';
