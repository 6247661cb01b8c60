/**
 * Schemas and types of Hearth's custom resources. scripts/generate-crds.ts generates the chart's CRDs from the schemas.
 */

export * from '../names.ts';
export {
  type CachePreload,
  type CachePreloadSpec,
  type CachePreloadStatus,
  type PreloadedNode,
  type PreloadPhase,
  preloadPhases,
} from './cache_preload.ts';
export { customResourceDefinition, objectSchema, type StructuralSchema } from './custom_resource.ts';
export {
  type Dataset,
  type DatasetMirror,
  type DatasetResidency,
  type DatasetSource,
  type DatasetSpec,
  type DatasetStatus,
  type SourceKind,
  sourceKind,
} from './dataset.ts';
export {
  cachePreloads,
  datasets,
  definitions,
  nodeCaches,
  type ResourceDefinition,
  storageClusters,
} from './definition.ts';
export { type Gate, type GateMode, gate, gateModes, type ReadyWhen } from './gate.ts';
export type { Condition, ObjectMeta, OwnerReference } from './metadata.ts';
export type { CachedDataset, NodeCache, NodeCacheStatus, ReboundPod } from './node_cache.ts';
export type { CacheDirectory, NodeGroup } from './node_group.ts';
export { placeOf } from './node_place.ts';
export { binaryUnits, parseDuration, parseQuantity, parseShare } from './quantity.ts';
export type { NodeState, StorageCluster, StorageClusterSpec, StorageClusterStatus } from './storage_cluster.ts';
