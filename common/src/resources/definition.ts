import type { z } from 'zod';
import { apiGroup, apiVersion } from '../names.ts';
import { cachePreloadSpecSchema, cachePreloadStatusSchema } from './cache_preload.ts';
import { datasetSpecSchema, datasetStatusSchema } from './dataset.ts';
import { nodeCacheSpecSchema, nodeCacheStatusSchema } from './node_cache.ts';
import { storageClusterSpecSchema, storageClusterStatusSchema } from './storage_cluster.ts';

/** A column of `kubectl get`; those with a priority above 0 are shown by `-o wide`. */
export interface PrinterColumn {
  name: string;
  type: 'string' | 'integer' | 'boolean' | 'date';
  format?: 'int64';
  jsonPath: string;
  description: string;
  priority?: number;
}

/** A kind of custom resource: what its definition is made of. */
export interface ResourceDefinition {
  group: string;
  version: string;
  plural: string;
  kind: string;
  namespaced: boolean;
  singular: string;
  shortNames: string[];
  description: string;
  /** Names become parts of labels, paths and names of other objects; longer ones are refused. */
  longestName: number;
  /** True when names must be single labels of DNS. */
  dotless?: boolean;
  spec: z.ZodType;
  status: z.ZodType;
  columns: PrinterColumn[];
}

const common = { group: apiGroup, version: apiVersion } as const;
const ready = (priority = 0): PrinterColumn => ({
  name: 'Ready',
  type: 'string',
  jsonPath: '.status.conditions[?(@.type=="Ready")].status',
  description: 'Whether it can be used.',
  priority,
});
const reason: PrinterColumn = {
  name: 'Reason',
  type: 'string',
  jsonPath: '.status.conditions[?(@.type=="Ready")].reason',
  description: 'Why it is as it is.',
  priority: 0,
};
const age: PrinterColumn = {
  name: 'Age',
  type: 'date',
  jsonPath: '.metadata.creationTimestamp',
  description: 'Time since it was made.',
};
const integer = (name: string, jsonPath: string, description: string, priority = 0): PrinterColumn => ({
  name,
  type: 'integer',
  format: 'int64',
  jsonPath,
  description,
  priority,
});

export const storageClusters = {
  ...common,
  plural: 'storageclusters',
  singular: 'storagecluster',
  kind: 'StorageCluster',
  namespaced: false,
  shortNames: ['hsc'],
  description: 'Nodes that cache datasets together.',
  longestName: 40,
  dotless: true,
  spec: storageClusterSpecSchema,
  status: storageClusterStatusSchema,
  columns: [
    ready(),
    integer('Nodes', '.status.nodesReady', 'Nodes whose agent serves.'),
    integer('Desired', '.status.nodesDesired', 'Nodes that the node groups select.'),
    integer('Capacity', '.status.capacityBytes', 'Budgets of all ready agents, bytes.'),
    integer('Used', '.status.usedBytes', 'Bytes in their caches.'),
    integer('Datasets', '.status.datasets', 'Datasets of the cluster.'),
    reason,
    age,
  ],
} as const satisfies ResourceDefinition;

export const nodeCaches = {
  ...common,
  plural: 'nodecaches',
  singular: 'nodecache',
  kind: 'NodeCache',
  namespaced: false,
  shortNames: ['hnc'],
  description: 'The caches of one node, as its agent reports them. Written by the operator.',
  longestName: 253,
  spec: nodeCacheSpecSchema,
  status: nodeCacheStatusSchema,
  columns: [
    { name: 'Cluster', type: 'string', jsonPath: '.spec.clusterRef.name', description: 'Its StorageCluster.' },
    ready(),
    integer('Budget', '.status.budgetBytes', 'Most bytes that its caches may hold.'),
    integer('Used', '.status.usedBytes', 'Bytes that they hold.'),
    integer('Resident', '.status.residentBytes', 'Bytes of them that belong to a Dataset.'),
    integer('Percent', '.status.percent', 'Used part of the budget.'),
    reason,
    { name: 'Updated', type: 'date', jsonPath: '.status.updatedAt', description: 'When it was reported.', priority: 1 },
    age,
  ],
} as const satisfies ResourceDefinition;

export const datasets = {
  ...common,
  plural: 'datasets',
  singular: 'dataset',
  kind: 'Dataset',
  namespaced: true,
  shortNames: ['hds'],
  description: 'Files of a model or a corpus at their origin, which pods read through volumes.',
  longestName: 63,
  spec: datasetSpecSchema,
  status: datasetStatusSchema,
  columns: [
    ready(),
    integer('Files', '.status.files', 'Files of the present revision.'),
    integer('Bytes', '.status.bytes', 'Their size.'),
    integer('Resident', '.status.residentBytes', 'Bytes of it in all caches together.'),
    integer('Percent', '.status.percent', 'Part of it on the node that has most.'),
    integer('Nodes', '.status.nodes', 'Nodes that have all of it.'),
    reason,
    { name: 'Revision', type: 'string', jsonPath: '.status.revision', description: 'Its revision.', priority: 1 },
    { name: 'Cluster', type: 'string', jsonPath: '.status.cluster', description: 'Its cluster.', priority: 1 },
    {
      name: 'Refreshed',
      type: 'date',
      jsonPath: '.status.refreshedAt',
      description: 'When its origin was asked.',
      priority: 1,
    },
    age,
  ],
} as const satisfies ResourceDefinition;

export const cachePreloads = {
  ...common,
  plural: 'cachepreloads',
  singular: 'cachepreload',
  kind: 'CachePreload',
  namespaced: true,
  shortNames: ['hcp'],
  description: 'Bytes of Datasets that are to be on nodes before pods ask for them.',
  longestName: 63,
  spec: cachePreloadSpecSchema,
  status: cachePreloadStatusSchema,
  columns: [
    { name: 'Phase', type: 'string', jsonPath: '.status.phase', description: 'How far it is.' },
    integer('Percent', '.status.percent', 'Ready part.'),
    integer('Ready', '.status.bytesReady', 'Bytes that are there, on all nodes together.'),
    integer('Memory', '.status.bytesInMemory', 'Bytes that are there, or in memory on their way.', 1),
    integer('Total', '.status.bytesTotal', 'Bytes that are wanted.'),
    integer('Nodes', '.status.nodesTotal', 'Nodes that were chosen.'),
    integer('Rate', '.status.bytesPerSecond', 'Bytes that became ready a second, of late.'),
    integer('Left', '.status.secondsLeft', 'Seconds until everything is there, estimated.'),
    {
      name: 'Waiting for',
      type: 'string',
      jsonPath: '.status.waitingFor',
      description: 'What is being waited for.',
      priority: 1,
    },
    reason,
    age,
  ],
} as const satisfies ResourceDefinition;

export const definitions: readonly ResourceDefinition[] = [storageClusters, nodeCaches, datasets, cachePreloads];
