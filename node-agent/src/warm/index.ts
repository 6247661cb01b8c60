/** Warm jobs: who brings what, and how far it is. */
export { WarmCoordinator } from './coordinator.ts';
export { WarmExecutor } from './executor.ts';
export { type SeenJob, WarmJobs } from './jobs.ts';
export { readyWhens } from './record.ts';
export { hasEnded } from './state.ts';
export { WarmTables } from './table.ts';
