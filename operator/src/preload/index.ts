/** CachePreloads: brings bytes to nodes before pods need them, and keeps them there. */

export { plannedNodesOf } from './choice.ts';
export { runPreloadController } from './preload_controller.ts';
export { PreloadMetrics } from './preload_metrics.ts';
export {
  type NodeReadiness,
  type PodGroupStatus,
  type PodGroupStatuses,
  type Readiness,
  ReadinessCache,
} from './readiness.ts';
export { hasEnded } from './wanted.ts';
