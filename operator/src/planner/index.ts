/** Where gated pods should go, and what has to be brought there: a pure function of what the cluster is. */

export { amountOf } from './amount.ts';
export type * from './input.ts';
export { plannedNode } from './node.ts';
export type * from './plan.ts';
export { plan } from './planner.ts';
export { type PodTemplate, podTemplate, runningPod } from './pod.ts';
