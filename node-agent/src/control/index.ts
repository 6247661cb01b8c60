export type { PrepareSource } from './dataset_calls.ts';
export { ControlApi, type ControlOptions } from './server.ts';
