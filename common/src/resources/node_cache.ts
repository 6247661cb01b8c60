import { z } from 'zod';
import { count, keyedBy, labelName, objectName, percent, reference, rules, timestamp } from './fields.ts';
import { conditionsSchema, type ObjectMeta, observedGeneration } from './metadata.ts';

export const nodeCacheSpecSchema = z
  .object({
    clusterRef: reference('StorageCluster that the agent of the node belongs to.', 40),
    nodeName: objectName().describe('Name of the node.'),
  })
  .meta(
    rules({ rule: 'self.nodeName == oldSelf.nodeName', message: 'nodeName cannot be changed', fieldPath: '.nodeName' }),
  );

const cachedDataset = z.object({
  namespace: labelName().describe('Namespace of the Dataset.'),
  name: objectName(63).describe('Its name.'),
  bytes: count().describe('Size of its present revision.'),
  residentBytes: count().describe('Bytes of it on this node.'),
  percent: percent().describe('The same in percent, rounded down: 100 is complete.'),
});

const capability = z.object({
  name: z.string().min(1).max(63).describe('fuse, passthrough, huge-pages, rdma, gpu-direct or budget.'),
  ready: z.boolean().describe('Whether the node has it.'),
  reason: z.string().max(1024).describe('Why not, or with which limits.'),
});

const reboundPod = z.object({
  namespace: labelName().describe('Namespace of the pod.'),
  name: objectName().describe('Its name.'),
  uid: z.string().min(1).max(64).describe('Its uid.'),
  at: z.string().max(64).describe('When its mounts were bound again; empty when the agent does not report it.'),
});

export const nodeCacheStatusSchema = z.object({
  observedGeneration: observedGeneration().optional(),
  conditions: conditionsSchema().optional(),
  ready: z.boolean().optional().describe('Whether the agent serves.'),
  reason: z.string().max(1024).optional().describe('Why not.'),
  budgetBytes: count().optional().describe('Most bytes that the caches of the node may hold.'),
  usedBytes: count().optional().describe('Bytes that they hold.'),
  residentBytes: count().optional().describe('Bytes of them that belong to a Dataset.'),
  percent: percent().optional().describe('Used part of the budget in percent, rounded down.'),
  datasets: z
    .array(cachedDataset)
    .max(50)
    .optional()
    .meta(keyedBy('namespace', 'name'))
    .describe('The 50 Datasets with the most bytes here.'),
  capabilities: z
    .array(capability)
    .max(16)
    .optional()
    .meta(keyedBy('name'))
    .describe('What the machine offers for reading fast, and why not more.'),
  reboundPods: z
    .array(reboundPod)
    .max(512)
    .optional()
    .meta(keyedBy('uid', 'at'))
    .describe('Pods whose mounts died and were bound again, and that have an event about it; once for each time.'),
  updatedAt: timestamp().optional().describe('When the agent reported this.'),
});

export type NodeCacheSpec = z.output<typeof nodeCacheSpecSchema>;
export type NodeCacheStatus = z.output<typeof nodeCacheStatusSchema>;
export type ReboundPod = z.output<typeof reboundPod>;
export type CachedDataset = z.output<typeof cachedDataset>;

/** One for each node of a StorageCluster, written by the operator. */
export interface NodeCache {
  apiVersion: 'hearth.storage/v1alpha1';
  kind: 'NodeCache';
  metadata: ObjectMeta;
  spec: NodeCacheSpec;
  status?: NodeCacheStatus;
}
