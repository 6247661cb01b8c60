/** The nodes that can use volumes: labels that PersistentVolumes require, and the node groups that csi-node reports. */
export { runNodeGroupsController } from './node_groups.ts';
export { runNodeLabelsController, withoutTopologyLabels } from './node_labels_reconciler.ts';
