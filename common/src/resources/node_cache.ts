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
  name: objectName(63).describe('Name of the Dataset.'),
  bytes: count().describe('Size of the present revision.'),
  residentBytes: count().describe('Bytes of the present revision on this node.'),
  memoryBytes: count()
    .optional()
    .describe("Bytes of files that are whole in the node's memory, where pods read them. Absent: none."),
  percent: percent().describe('Resident part of the revision in percent, rounded down: 100 is complete.'),
});

const capability = z.object({
  name: z
    .string()
    .min(1)
    .max(63)
    .describe('Name of the capability: fuse, passthrough, huge-pages, rdma, gpu-direct or budget.'),
  ready: z.boolean().describe('True when the node has the capability.'),
  reason: z.string().max(1024).describe('Reason for a missing capability, or limits of a present one.'),
});

const reboundPod = z.object({
  namespace: labelName().describe('Namespace of the pod.'),
  name: objectName().describe('Name of the pod.'),
  uid: z.string().min(1).max(64).describe('UID of the pod.'),
  at: z
    .string()
    .max(64)
    .describe('Time at which the mounts were bound again; empty when the agent does not report it.'),
});

export const nodeCacheStatusSchema = z.object({
  observedGeneration: observedGeneration().optional(),
  conditions: conditionsSchema().optional(),
  ready: z.boolean().optional().describe('True when the agent serves.'),
  reason: z.string().max(1024).optional().describe('Reason why the agent does not serve.'),
  budgetBytes: count().optional().describe('Maximum bytes that the caches of the node may hold.'),
  usedBytes: count().optional().describe('Bytes that the caches of the node hold.'),
  residentBytes: count().optional().describe('Bytes in the caches that belong to a Dataset.'),
  percent: percent().optional().describe('Used part of the budget in percent, rounded down.'),
  datasets: z
    .array(cachedDataset)
    .max(50)
    .optional()
    .meta(keyedBy('namespace', 'name'))
    .describe('The 50 Datasets with the most bytes on this node.'),
  capabilities: z
    .array(capability)
    .max(16)
    .optional()
    .meta(keyedBy('name'))
    .describe('Capabilities of the machine for fast reads, with the reasons for missing ones.'),
  reboundPods: z
    .array(reboundPod)
    .max(512)
    .optional()
    .meta(keyedBy('uid', 'at'))
    .describe('Pods whose mounts died and were bound again. The operator sends each pod one event for each time.'),
  updatedAt: timestamp().optional().describe("Time of the agent's report."),
});

export type NodeCacheSpec = z.output<typeof nodeCacheSpecSchema>;
export type NodeCacheStatus = z.output<typeof nodeCacheStatusSchema>;
export type ReboundPod = z.output<typeof reboundPod>;
export type CachedDataset = z.output<typeof cachedDataset>;

/** One object for each node of a StorageCluster, written by the operator. */
export interface NodeCache {
  apiVersion: 'hearth.storage/v1alpha1';
  kind: 'NodeCache';
  metadata: ObjectMeta;
  spec: NodeCacheSpec;
  status?: NodeCacheStatus;
}
