/** The custom resources of Hearth: their schemas, of which the definitions in crds/ are made, and their types. */
export {
  type Dataset,
  type DatasetResidency,
  type DatasetSource,
  type DatasetSpec,
  type DatasetStatus,
  type SourceKind,
  sourceKind,
} from './dataset.ts';
export { datasets, definitions, nodeCaches, type ResourceDefinition, storageClusters } from './definition.ts';
export type { Condition, ObjectMeta, OwnerReference } from './metadata.ts';
export * from './names.ts';
export type { CachedDataset, NodeCache, NodeCacheSpec, NodeCacheStatus } from './node_cache.ts';
export { parseDuration, parseQuantity, parseShare } from './quantity.ts';
export type {
  CacheDirectory,
  NodeGroup,
  NodeState,
  StorageCluster,
  StorageClusterSpec,
  StorageClusterStatus,
} from './storage_cluster.ts';
