import type { z } from 'zod';
import { apiGroup, apiVersion } from '../names.ts';
import { cachePreloadSpecSchema, cachePreloadStatusSchema } from './cache_preload.ts';
import { datasetSpecSchema, datasetStatusSchema } from './dataset.ts';
import { nodeCacheSpecSchema, nodeCacheStatusSchema } from './node_cache.ts';
import { storageClusterSpecSchema, storageClusterStatusSchema } from './storage_cluster.ts';

/** A column of `kubectl get`; columns with a priority above 0 are shown by `-o wide` only. */
export interface PrinterColumn {
  name: string;
  type: 'string' | 'integer' | 'boolean' | 'date';
  format?: 'int64';
  jsonPath: string;
  description: string;
  priority?: number;
}

/** The parts of a custom resource definition. */
export interface ResourceDefinition {
  group: string;
  version: string;
  plural: string;
  kind: string;
  namespaced: boolean;
  singular: string;
  shortNames: string[];
  description: string;
  /** Names become parts of labels, paths and other objects' names; longer names are refused. */
  longestName: number;
  /** True when names must be single DNS labels. */
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
  description: 'Status of the condition Ready.',
  priority,
});
const reason: PrinterColumn = {
  name: 'Reason',
  type: 'string',
  jsonPath: '.status.conditions[?(@.type=="Ready")].reason',
  description: 'Reason for the status of Ready.',
  priority: 0,
};
const age: PrinterColumn = {
  name: 'Age',
  type: 'date',
  jsonPath: '.metadata.creationTimestamp',
  description: 'Time since the object was created.',
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
  description: 'A group of nodes that cache datasets together.',
  longestName: 40,
  dotless: true,
  spec: storageClusterSpecSchema,
  status: storageClusterStatusSchema,
  columns: [
    ready(),
    integer('Nodes', '.status.nodesReady', 'Number of nodes whose agent serves.'),
    integer('Desired', '.status.nodesDesired', 'Number of ready nodes that the node groups select.'),
    integer('Capacity', '.status.capacityBytes', 'Sum of the budgets of all ready agents, bytes.'),
    integer('Used', '.status.usedBytes', 'Bytes in the caches of all ready agents.'),
    integer('Datasets', '.status.datasets', 'Number of Datasets of the cluster.'),
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
  description: 'The caches of one node, as its agent reports them. The operator writes it.',
  longestName: 253,
  spec: nodeCacheSpecSchema,
  status: nodeCacheStatusSchema,
  columns: [
    { name: 'Cluster', type: 'string', jsonPath: '.spec.clusterRef.name', description: 'StorageCluster of the node.' },
    ready(),
    integer('Budget', '.status.budgetBytes', 'Maximum bytes in the caches of the node.'),
    integer('Used', '.status.usedBytes', 'Bytes in the caches of the node.'),
    integer('Resident', '.status.residentBytes', 'Bytes in the caches that belong to a Dataset.'),
    integer('Percent', '.status.percent', 'Used part of the budget in percent.'),
    reason,
    { name: 'Updated', type: 'date', jsonPath: '.status.updatedAt', description: 'Time of the report.', priority: 1 },
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
  description: 'The files of a model or a corpus at their origin. Pods read them through volumes.',
  longestName: 63,
  spec: datasetSpecSchema,
  status: datasetStatusSchema,
  columns: [
    ready(),
    integer('Files', '.status.files', 'Number of files of the present revision.'),
    integer('Bytes', '.status.bytes', 'Size of the present revision.'),
    integer('Resident', '.status.residentBytes', 'Bytes of the revision in all caches together.'),
    integer('Percent', '.status.percent', 'Resident part of the revision on the fullest node, in percent.'),
    integer('Nodes', '.status.nodes', 'Number of nodes with the complete revision.'),
    reason,
    { name: 'Revision', type: 'string', jsonPath: '.status.revision', description: 'Present revision.', priority: 1 },
    {
      name: 'Cluster',
      type: 'string',
      jsonPath: '.status.cluster',
      description: 'StorageCluster whose agents serve the Dataset.',
      priority: 1,
    },
    {
      name: 'Refreshed',
      type: 'date',
      jsonPath: '.status.refreshedAt',
      description: 'Time of the last request to the origin.',
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
  description: 'Brings bytes of Datasets to nodes before pods read them.',
  longestName: 63,
  spec: cachePreloadSpecSchema,
  status: cachePreloadStatusSchema,
  columns: [
    { name: 'Phase', type: 'string', jsonPath: '.status.phase', description: 'Progress of the preload.' },
    integer('Percent', '.status.percent', 'Stored part in percent.'),
    integer('Ready', '.status.bytesReady', 'Stored bytes, on all nodes together.'),
    integer('Memory', '.status.bytesInMemory', 'Stored bytes, and bytes in memory that are not stored yet.', 1),
    integer('Total', '.status.bytesTotal', 'Bytes to preload.'),
    integer('Nodes', '.status.nodesTotal', 'Number of chosen nodes.'),
    integer('Rate', '.status.bytesPerSecond', 'Recent speed: bytes stored a second.'),
    integer('Left', '.status.secondsLeft', 'Estimated seconds until completion.'),
    {
      name: 'Waiting for',
      type: 'string',
      jsonPath: '.status.waitingFor',
      description: 'Event that the preload waits for.',
      priority: 1,
    },
    reason,
    age,
  ],
} as const satisfies ResourceDefinition;

export const definitions: readonly ResourceDefinition[] = [storageClusters, nodeCaches, datasets, cachePreloads];
