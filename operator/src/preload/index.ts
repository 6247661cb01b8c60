/** CachePreloads: brings bytes to nodes before they are needed, and keeps them there. */
export type { NodeReadiness, OnChange, PlannedNodes, PlannedPods, Readiness } from './board.ts';
