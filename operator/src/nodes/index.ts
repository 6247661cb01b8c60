/** Nodes: startup taints, required copies, last copies, zones and racks. */
export { KeptCopies } from './kept_copies.ts';
export { runNodeController } from './node_reconciler.ts';
export { withoutStartupTaint } from './taint.ts';
