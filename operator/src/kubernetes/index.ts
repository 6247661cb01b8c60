/** Kubernetes for several rooms of the operator: parts of reflectors, labels, hashes, and the places of nodes. */
export { agentsOn, staleAgents } from './agents_label.ts';
export { Interests } from './interests.ts';
export { componentLabel, labelsOfOperator, managedByLabel, ownedSelector } from './labels.ts';
export { all, deleteAll, pages } from './listing.ts';
export { mountingPods, namedPods } from './mounting_pods.ts';
export { hasLabels, type NodeFacts, nodeFacts } from './node_facts.ts';
export {
  type Expression,
  expressionHolds,
  hardTaints,
  isTolerated,
  type Taint,
  type Toleration,
} from './node_matching.ts';
export { type Place, type Placement, type PlacementConflict, placeNodes } from './placement.ts';
export { Placements } from './placements.ts';
export { type SecretTexts, secretData, secretTexts } from './secret_texts.ts';
export { termsOf, tolerationsOf } from './selection.ts';
export type { Source } from './source.ts';
export { canonical, hashOf } from './spec_hash.ts';
