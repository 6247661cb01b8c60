/** Where volumes can be used: the labels of nodes that PersistentVolumes name, and what csi-node says on other nodes. */
export { runNodeGroupsController } from './node_groups.ts';
export { withoutTopologyLabels } from './node_labels.ts';
export { runNodeLabelsController } from './node_labels_reconciler.ts';
