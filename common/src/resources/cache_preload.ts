import { z } from 'zod';
import {
  asList,
  asSet,
  count,
  duration,
  keyedBy,
  objectName,
  percent,
  rate,
  rules,
  seconds,
  timestamp,
} from './fields.ts';
import { gate, readyWhens } from './gate.ts';
import { conditionsSchema, type ObjectMeta, observedGeneration } from './metadata.ts';

const wantedDataset = z.object({
  name: objectName(63).describe('Name of the Dataset, in the namespace of the CachePreload.'),
  paths: z
    .array(z.string().min(1).max(1024))
    .max(100)
    .default([])
    .meta(asList)
    .describe('Globs of the files to preload; none: all files. A glob that matches no file fails the preload.'),
});

const groupOfPods = z
  .object({
    gate: gate.describe(
      'Gate of the pods: the strictest gate of their Datasets, unless their own annotations override it.',
    ),
    group: z.string().min(1).max(512).describe('Name of the group of pods for people, such as ReplicaSet/web-6c9f.'),
    nodes: z
      .array(objectName())
      .max(5000)
      .optional()
      .meta(asSet)
      .describe(
        'Planned nodes, in the order in which agents warm them. The operator writes them. Absent: the operator has not ' +
          'planned yet.',
      ),
  })
  .describe('Pods whose annotation hearth.storage/preload names this CachePreload.');

const placementKinds = ['replicas', 'nodeNames', 'allNodes', 'gatedPods'] as const;

const placement = z
  .object({
    replicas: z
      .int()
      .min(1)
      .max(10_000)
      .optional()
      .describe(
        'Number of nodes. The operator chooses nodes that hold the most bytes already and have room for the rest.',
      ),
    nodeNames: z.array(objectName()).min(1).max(1000).optional().meta(asSet).describe('Names of the nodes.'),
    allNodes: z.boolean().optional().describe('All nodes of the cluster, including nodes that join later.'),
    gatedPods: groupOfPods.optional(),
    nodeSelector: z
      .record(z.string(), z.string().max(63))
      .optional()
      .meta({ maxProperties: 16 })
      .describe('Labels that the nodes must have, with replicas and allNodes.'),
  })
  .meta(
    rules(
      {
        rule: `[${placementKinds.map((kind) => `has(self.${kind})`).join(', ')}].filter(given, given).size() == 1`,
        message: `exactly one of ${placementKinds.slice(0, -1).join(', ')} and ${placementKinds.at(-1)} must be given`,
      },
      {
        rule: '!has(self.allNodes) || self.allNodes',
        message: 'must be true or absent',
        fieldPath: '.allNodes',
      },
      {
        rule: '!has(self.nodeSelector) || has(self.replicas) || has(self.allNodes)',
        message: 'requires replicas or allNodes',
        fieldPath: '.nodeSelector',
      },
      {
        rule: 'has(self.gatedPods) == has(oldSelf.gatedPods)',
        message: 'gatedPods cannot be added or removed',
        reason: 'FieldValueForbidden',
      },
    ),
  );

export const cachePreloadSpecSchema = z.object({
  datasets: z
    .array(wantedDataset)
    .min(1)
    .max(32)
    .meta(keyedBy('name'))
    .describe('Datasets to preload, all of one StorageCluster.'),
  placement: placement.describe('Nodes to preload: exactly one of replicas, nodeNames, allNodes and gatedPods.'),
  pin: z
    .boolean()
    .default(true)
    .describe(
      'Keeps the bytes on the nodes, whatever else needs room, until the CachePreload is deleted or its ttl is over.',
    ),
  ttl: duration('1s', '720h')
    .optional()
    .describe(
      'Time from completion until the operator releases the pins. Absent: it releases them when the CachePreload is deleted.',
    ),
  priority: z
    .int()
    .min(0)
    .max(1000)
    .default(100)
    .describe('Preloads with a higher number go first where two compete for the buffers of a node.'),
  deadline: duration('1s', '720h')
    .optional()
    .describe(
      'Time from creation after which an incomplete preload fails. Its bytes stay on the nodes. A preload that was complete ' +
        'once has met its deadline, also for later revisions and nodes.',
    ),
  rateLimit: z
    .object({
      origin: rate().optional().describe('Maximum bytes a second from the origin, all nodes together.'),
      network: rate().optional().describe('Maximum bytes a second that each node receives from other nodes.'),
    })
    .optional()
    .describe('Limits of the preload. Absent: no limits.'),
  verify: z
    .enum(['Checksum', 'SourceDigest'])
    .default('Checksum')
    .describe(
      'Checksum: agents read the bytes of this preload again and compare them with the checksums of their arrival. ' +
        'SourceDigest: agents read all bytes, including earlier ones, and also compare them with the SHA-256 of the ' +
        'origin, where the origin gives one.',
    ),
  readyWhen: z
    .enum(readyWhens)
    .default('Stored')
    .describe(
      'State in which the condition Ready holds. Stored: all bytes are stored on disk, verified and linked. Memory: all ' +
        'bytes are checked in memory, where readers find them; the preload goes on until all bytes are stored. Phase, ' +
        'percent, deadline and ttl count stored bytes.',
    ),
  revisions: z
    .enum(['Once', 'Every'])
    .default('Once')
    .describe('Once: the revision of the Dataset when the preload begins. Every: all later revisions, too.'),
});

const nodePhases = ['Pending', 'Warming', 'Verifying', 'Ready', 'Failed', 'Gone'] as const;

/** Times at which each stage was reached; absent: not yet, or unknown to the agent. */
const arrivals = {
  inMemoryAt: timestamp().optional().describe('Time at which all bytes were in memory.'),
  storedAt: timestamp().optional().describe('Time at which all bytes were stored.'),
  secondsToMemory: seconds().optional().describe('Seconds from the first warm job until all bytes were in memory.'),
  secondsToStored: seconds().optional().describe('Seconds from the first warm job until all bytes were stored.'),
};

const preloadedNode = z.object({
  name: objectName().describe('Name of the node.'),
  phase: z.enum(nodePhases).describe('Progress of the node.'),
  bytesTotal: count().describe('Bytes to preload on the node.'),
  bytesReady: count().describe('Stored bytes.'),
  bytesInMemory: count()
    .optional()
    .describe('Stored bytes, and bytes in memory that are not stored yet. Absent: unknown.'),
  bytesVerified: count().describe('Bytes that agents read again and compared.'),
  percent: percent().describe('Stored part in percent, rounded down.'),
  originBytes: count().describe('Bytes that the node fetched from the origin for this preload.'),
  peerBytes: count().describe('Bytes that the node fetched from other nodes for this preload.'),
  message: z.string().max(1024).describe('Event that the node waits for, or reason for its failure.'),
  ...arrivals,
});

const boundRevision = z.object({
  dataset: objectName(63).describe('Name of the Dataset.'),
  manifest: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .max(64)
    .describe('SHA-256 of the list of files, which identifies the revision.'),
  revision: z.string().max(1024).describe("The origin's name of the revision."),
});

export const preloadPhases = ['Pending', 'Warming', 'Verifying', 'Ready', 'Failed'] as const;

export const cachePreloadStatusSchema = z.object({
  observedGeneration: observedGeneration().optional(),
  conditions: conditionsSchema().optional(),
  phase: z.enum(preloadPhases).optional().describe('Progress of the preload.'),
  waitingFor: z
    .string()
    .max(1024)
    .optional()
    .describe('Event that the preload waits for, a sentence for people; empty: none.'),
  bytesTotal: count().optional().describe('Bytes to preload, on all nodes together.'),
  bytesReady: count().optional().describe('Stored bytes.'),
  bytesInMemory: count().optional().describe('Stored bytes, and bytes in memory that are not stored yet.'),
  bytesVerified: count().optional().describe('Bytes that agents read again and compared.'),
  percent: percent().optional().describe('Stored part in percent, rounded down.'),
  bytesPerSecond: count().optional().describe('Recent speed: bytes stored a second.'),
  secondsLeft: count().optional().describe('Estimated seconds until completion; absent: unknown.'),
  nodesTotal: count().optional().describe('Number of chosen nodes.'),
  nodesReady: count().optional().describe('Number of complete nodes.'),
  revisions: z.array(boundRevision).max(32).optional().meta(keyedBy('dataset')).describe('Revisions of the preload.'),
  nodes: z
    .array(preloadedNode)
    .max(500)
    .optional()
    .meta(keyedBy('name'))
    .describe('Nodes, incomplete ones first, at most 500. The numbers above count all nodes.'),
  pods: z
    .object({
      waiting: count().describe('Number of waiting pods.'),
      released: count().describe('Number of released pods.'),
      reason: z.string().max(1024).describe('Reason for the choice of nodes, or for the release of the pods.'),
    })
    .optional()
    .describe('Progress of the gated pods.'),
  startedAt: timestamp().optional().describe('Time of the first request for bytes.'),
  inMemoryAt: timestamp().optional().describe('Time at which all bytes were in memory, on all nodes.'),
  completedAt: timestamp().optional().describe('Time at which all bytes were stored and pinned.'),
});

export type CachePreloadSpec = z.output<typeof cachePreloadSpecSchema>;
export type CachePreloadStatus = z.output<typeof cachePreloadStatusSchema>;
export type PreloadedNode = z.output<typeof preloadedNode>;
export type PreloadPhase = (typeof preloadPhases)[number];

/** A CachePreload as the API server returns it, with defaults. */
export interface CachePreload {
  apiVersion: 'hearth.storage/v1alpha1';
  kind: 'CachePreload';
  metadata: ObjectMeta;
  spec: CachePreloadSpec;
  status?: CachePreloadStatus;
}
