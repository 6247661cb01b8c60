/** Nodes: their startup taint, what they must hold and what they may not take with them, and where they stand. */
export { KeptCopies } from './kept_copies.ts';
export { runNodeController } from './node_reconciler.ts';
export { withoutStartupTaint } from './taint.ts';
