/** Kubernetes helpers of several rooms: projections, labels, hashes, and the placement of nodes. */
export { daemonTerms, isAnchored, type NodeTerm, volumeTerms } from './anchors.ts';
export { Interests } from './interests.ts';
export { all, deleteAll, pages } from './listing.ts';
export {
  type ClaimedVolume,
  claimedVolume,
  MountingPods,
  namedPods,
  type PodMounts,
  podMounts,
} from './mounting_pods.ts';
export { hasLabels, type NodeFacts, nodeFacts } from './node_facts.ts';
export {
  type Expression,
  expressionHolds,
  hardTaints,
  isTolerated,
  type Taint,
  type Toleration,
} from './node_matching.ts';
export * from './objects.ts';
export * from './placement.ts';
