/** NodeCaches: one for each node of a StorageCluster, with what its agent says of its caches. */
export { runNodeCacheController } from './node_cache_reconciler.ts';
