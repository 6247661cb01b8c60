/** Chooses nodes for gated pods, and the bytes to bring there: a pure function of the cluster. */

export type * from './input.ts';
export type * from './plan.ts';
export { plan } from './planner.ts';
export { type PodTemplate, plannedNode, podTemplate, runningPod } from './pod.ts';
export { amountOf } from './requests.ts';
