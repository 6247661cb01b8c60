/** Gated pods: their groups, their plans and their release. */

export { chooseGate } from './gate_choice.ts';
export { GateController } from './gate_controller.ts';
export { GateMetrics } from './gate_metrics.ts';
export { controllerOf, preloadName } from './group_name.ts';
export {
  type ClaimView,
  claimView,
  type Known,
  type Missing,
  type PodDatasets,
  podDatasets,
  type VolumeFacts,
  volumeFacts,
} from './pod_datasets.ts';
export { isGated, type Member, podView } from './pod_view.ts';
export { releasePod } from './release.ts';
