/** CachePreloads: brings bytes to nodes before they are needed, and keeps them there. */
export type { NodeReadiness, OnChange, PodGroupStatus, PodGroupStatuses, Readiness } from './board.ts';
export { plannedNodesOf } from './choice.ts';
export { hasEnded } from './job_request.ts';
export { type PreloadControllerOptions, runPreloadController } from './preload_controller.ts';
export { PreloadMetrics } from './preload_metrics.ts';
export { ReadinessBoard } from './readiness_board.ts';
