export type * from './engine.ts';
export { openEngine, PathFilter } from './native-engine.ts';
