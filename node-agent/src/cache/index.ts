/** The cache directories of an agent before the engine has them: whether they can be used, and what they hold. */
export { budgetProbe } from './budget_probe.ts';
export { CacheCheck } from './cache_check.ts';
export { CacheWatch } from './cache_watch.ts';
