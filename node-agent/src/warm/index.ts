/** Warm jobs: assignment, execution and progress. */
export { WarmCoordinator } from './coordinator.ts';
export { WarmExecutor } from './executor.ts';
export { type SeenJob, WarmJobs } from './jobs.ts';
export { readyWhens } from './record.ts';
export { hasEnded } from './state.ts';
export { WarmTables } from './table.ts';
