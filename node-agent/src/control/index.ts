export type { PrepareSource } from './dataset_calls.ts';
export { ControlApi } from './server.ts';
