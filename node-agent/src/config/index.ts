export {
  type CacheDirectory,
  type MeasuredDirectory,
  measureCacheDirectories,
  measureCacheDirectory,
} from './cache_directory.ts';
export { describeConfig } from './describe.ts';
export { type Endpoint, formatEndpoint, listenError } from './endpoint.ts';
export { engineLimits } from './limits_section.ts';
export { loadConfig } from './load.ts';
export { formatSize, parseDuration, parseSize, resolveAmount } from './quantity.ts';
export type { AgentConfig } from './schema.ts';
export { type Setting, settings } from './settings.ts';
