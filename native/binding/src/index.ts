export type * from './arena_statistics.ts';
export type * from './copy_statistics.ts';
export type * from './engine.ts';
export type * from './limits.ts';
export { openEngine, PathFilter, ProxyChoice } from './native-engine.ts';
export type * from './rdma.ts';
export type * from './sources.ts';
