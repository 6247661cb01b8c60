/** NodeCaches: one for each node of a StorageCluster, with its agent's report. */
export { runNodeCacheController } from './node_cache_reconciler.ts';
