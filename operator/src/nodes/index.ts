/** Nodes: their startup taint, and where they stand. */
export { type NodeControllerOptions, runNodeController } from './node_controller.ts';
