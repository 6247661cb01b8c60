/** Pods that wait for bytes: which they are, where they should go, and when they may. */

export { chooseGate } from './gate_choice.ts';
export { GateController } from './gate_controller.ts';
export { GateMetrics } from './gate_metrics.ts';
export { controllerOf, preloadName } from './group_name.ts';
export { type ClaimView, claimView, type Known, type VolumeFacts, volumeFacts } from './known.ts';
export { type Missing, type PodDatasets, podDatasets } from './pod_datasets.ts';
export { isGated, type Member, podView } from './pod_view.ts';
export { releasePod } from './release.ts';
