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
    .describe('Globs of the files that are wanted; none: all. Globs that match nothing fail the preload.'),
});

const groupOfPods = z
  .object({
    gate: gate.describe('How the pods wait: the strictest of their Datasets and their own annotations.'),
    group: z
      .string()
      .min(1)
      .max(512)
      .describe('What the pods have in common, for people, such as ReplicaSet/web-6c9f.'),
    nodes: z
      .array(objectName())
      .max(5000)
      .optional()
      .meta(asSet)
      .describe(
        'The plan, which the operator writes: nodes that are to hold the bytes, those first that are warmed first. Absent: ' +
          'there is none yet.',
      ),
  })
  .describe('The pods that carry the name of this CachePreload in their annotation hearth.storage/preload.');

const placementKinds = ['replicas', 'nodeNames', 'allNodes', 'gatedPods'] as const;

const placement = z
  .object({
    replicas: z
      .int()
      .min(1)
      .max(10_000)
      .optional()
      .describe('This many nodes, those that hold most of the bytes already and have room for the rest.'),
    nodeNames: z.array(objectName()).min(1).max(1000).optional().meta(asSet).describe('These nodes.'),
    allNodes: z.boolean().optional().describe('All nodes of the cluster, also those that come later.'),
    gatedPods: groupOfPods.optional(),
    nodeSelector: z
      .record(z.string(), z.string().max(63))
      .optional()
      .meta({ maxProperties: 16 })
      .describe('Labels that the nodes must have; with replicas and allNodes.'),
  })
  .meta(
    rules(
      {
        rule: `[${placementKinds.map((kind) => `has(self.${kind})`).join(', ')}].filter(given, given).size() == 1`,
        message: `exactly one of ${placementKinds.slice(0, -1).join(', ')} and ${placementKinds.at(-1)} must be given`,
      },
      {
        rule: '!has(self.allNodes) || self.allNodes',
        message: 'may only be true',
        fieldPath: '.allNodes',
      },
      {
        rule: '!has(self.nodeSelector) || has(self.replicas) || has(self.allNodes)',
        message: 'is for replicas and allNodes',
        fieldPath: '.nodeSelector',
      },
      {
        rule: 'has(self.gatedPods) == has(oldSelf.gatedPods)',
        message: 'a CachePreload of gated pods stays one, and no other becomes one',
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
    .describe('What is to be there. All of one StorageCluster.'),
  placement: placement.describe('Where it is to be: exactly one of replicas, nodeNames, allNodes and gatedPods.'),
  pin: z
    .boolean()
    .default(true)
    .describe('Whether the bytes stay whatever else needs room, until the CachePreload is deleted or its ttl is over.'),
  ttl: duration('1s', '720h')
    .optional()
    .describe(
      'Pins are released this long after everything was there. Absent: not before the CachePreload is deleted.',
    ),
  priority: z
    .int()
    .min(0)
    .max(1000)
    .default(100)
    .describe('Of two preloads that want the same buffers of a node the one with the higher number goes first.'),
  deadline: duration('1s', '720h')
    .optional()
    .describe(
      'The preload fails when not everything is there this long after its creation. What is there stays. Once everything was ' +
        'there it has been met, also for later revisions and nodes.',
    ),
  rateLimit: z
    .object({
      origin: rate().optional().describe('Most bytes a second from the origin, all nodes together.'),
      network: rate().optional().describe('Most bytes a second that each node receives from other nodes.'),
    })
    .optional()
    .describe('Limits for the sake of others. Absent: none.'),
  verify: z
    .enum(['Checksum', 'SourceDigest'])
    .default('Checksum')
    .describe(
      'Checksum: what this preload brought is read again and compared with the checksums of arrival. SourceDigest: all of it, ' +
        'also what was there before, and also with the SHA-256 that the origin gives, where it gives one.',
    ),
  readyWhen: z
    .enum(readyWhens)
    .default('Stored')
    .describe(
      'When the condition Ready holds. Stored: everything is stored on disk, verified and linked. Memory: everything is ' +
        'checked in memory, where readers find it too; it goes on until everything is stored. Phase, percent, deadline and ttl ' +
        'are about what is stored.',
    ),
  revisions: z
    .enum(['Once', 'Every'])
    .default('Once')
    .describe('Once: the revision that the Dataset has when the preload begins. Every: also all that follow.'),
});

const nodePhases = ['Pending', 'Warming', 'Verifying', 'Ready', 'Failed', 'Gone'] as const;

/** When one of the two was reached; absent: not yet, or the agent did not say. */
const arrivals = {
  inMemoryAt: timestamp().optional().describe('When all of them were in memory.'),
  storedAt: timestamp().optional().describe('When all of them were stored.'),
  secondsToMemory: seconds().optional().describe('Time from its first warm job until all of them were in memory.'),
  secondsToStored: seconds().optional().describe('Time from its first warm job until all of them were stored.'),
};

const preloadedNode = z.object({
  name: objectName().describe('Name of the node.'),
  phase: z.enum(nodePhases).describe('How far it is.'),
  bytesTotal: count().describe('Bytes that are wanted there.'),
  bytesReady: count().describe('Bytes of them that are stored there.'),
  bytesInMemory: count()
    .optional()
    .describe('Bytes of them that are stored there, and those that are in memory on their way. Absent: not known.'),
  bytesVerified: count().describe('Bytes of them that were read again and compared.'),
  percent: percent().describe('Ready part in percent, rounded down.'),
  originBytes: count().describe('Bytes that it fetched from the origin for this preload.'),
  peerBytes: count().describe('Bytes that it fetched from other nodes for this preload.'),
  message: z.string().max(1024).describe('What it waits for, or why it failed.'),
  ...arrivals,
});

const boundRevision = z.object({
  dataset: objectName(63).describe('Name of the Dataset.'),
  manifest: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .max(64)
    .describe('SHA-256 of the list of files, which names the revision.'),
  revision: z.string().max(1024).describe("The origin's name of it."),
});

export const preloadPhases = ['Pending', 'Warming', 'Verifying', 'Ready', 'Failed'] as const;

export const cachePreloadStatusSchema = z.object({
  observedGeneration: observedGeneration().optional(),
  conditions: conditionsSchema().optional(),
  phase: z.enum(preloadPhases).optional().describe('How far it is.'),
  waitingFor: z
    .string()
    .max(1024)
    .optional()
    .describe('What is being waited for, a sentence for people; empty: nothing.'),
  bytesTotal: count().optional().describe('Bytes that are wanted, on all nodes together.'),
  bytesReady: count().optional().describe('Bytes of them that are stored there.'),
  bytesInMemory: count()
    .optional()
    .describe('Bytes of them that are stored there, and those that are in memory on their way.'),
  bytesVerified: count().optional().describe('Bytes of them that were read again and compared.'),
  percent: percent().optional().describe('Ready part in percent, rounded down.'),
  bytesPerSecond: count().optional().describe('Bytes that became ready a second, of late.'),
  secondsLeft: count().optional().describe('Estimated time until everything is there; absent: unknown.'),
  nodesTotal: count().optional().describe('Nodes that were chosen.'),
  nodesReady: count().optional().describe('Nodes that have everything.'),
  revisions: z
    .array(boundRevision)
    .max(32)
    .optional()
    .meta(keyedBy('dataset'))
    .describe('The revisions that are being preloaded.'),
  nodes: z
    .array(preloadedNode)
    .max(500)
    .optional()
    .meta(keyedBy('name'))
    .describe('Each node, those that are not ready first. At most 500 are listed; the numbers above count all.'),
  pods: z
    .object({
      waiting: count().describe('Pods that are held back.'),
      released: count().describe('Pods that were released.'),
      reason: z.string().max(1024).describe('Why these nodes were chosen, or why the pods were released.'),
    })
    .optional()
    .describe('Of a CachePreload of gated pods.'),
  startedAt: timestamp().optional().describe('When the first byte was asked for.'),
  inMemoryAt: timestamp().optional().describe('When everything was in memory, on all nodes.'),
  completedAt: timestamp().optional().describe('When everything was stored and pinned.'),
});

export type CachePreloadSpec = z.output<typeof cachePreloadSpecSchema>;
export type CachePreloadStatus = z.output<typeof cachePreloadStatusSchema>;
export type PreloadedNode = z.output<typeof preloadedNode>;
export type PreloadPhase = (typeof preloadPhases)[number];

/** As the API server gives it: defaults are filled in. */
export interface CachePreload {
  apiVersion: 'hearth.storage/v1alpha1';
  kind: 'CachePreload';
  metadata: ObjectMeta;
  spec: CachePreloadSpec;
  status?: CachePreloadStatus;
}
