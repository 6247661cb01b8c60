export { type CacheDirectory, type MeasuredDirectory, measureCacheDirectories } from './cache_directory.ts';
export { configurationDocument, describeConfig } from './describe.ts';
export { type Endpoint, formatEndpoint, listenError } from './endpoint.ts';
export { type ConfigInput, defaultConfigFile, type LoadedConfig, loadConfig } from './load.ts';
export { formatSize, parseDuration, parseSize } from './quantity.ts';
export type { AgentConfig } from './schema.ts';
export { type Setting, settings } from './settings.ts';
