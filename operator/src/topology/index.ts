/** Where volumes can be used: the labels of nodes that PersistentVolumes name, and what csi-node says on other nodes. */
export { withoutTopologyLabels } from './node_labels.ts';
export { runTopologyController } from './topology_controller.ts';
