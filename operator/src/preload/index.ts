/** CachePreloads: brings bytes to nodes before they are needed, and keeps them there. */

export { plannedNodesOf } from './choice.ts';
export { hasEnded } from './job_request.ts';
export { runPreloadController } from './preload_controller.ts';
export { PreloadMetrics } from './preload_metrics.ts';
export {
  type NodeReadiness,
  type PodGroupStatus,
  type PodGroupStatuses,
  type Readiness,
  ReadinessCache,
} from './readiness.ts';
