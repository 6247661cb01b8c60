export type * from './engine.ts';
export { openEngine } from './native-engine.ts';
