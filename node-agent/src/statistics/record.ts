import { z } from 'zod';
import type { Member } from '../context.ts';
import { RecordTable, unsigned } from '../records/index.ts';
import type { Store } from '../store/index.ts';

const datasetResidencySchema = z.object({
  residentBytes: unsigned,
  /** Of files that are whole in memory; agents of the previous release do not say. */
  memoryBytes: unsigned.default(0n),
  completeFiles: z.int(),
  pinned: z.boolean(),
  dataPath: z.string(),
  reason: z.string(),
  /** Put-aside sources of a dataset with mirrors, each with the reason; absent: none. */
  sourcesAside: z.array(z.string()).optional(),
});
export type NodeResidency = z.output<typeof datasetResidencySchema>;

const pod = z.object({
  namespace: z.string(),
  name: z.string(),
  uid: z.string(),
  reboundAt: z.string().default(''),
});

/** Like RdmaStatus of the control API. */
const rdmaSchema = z.object({
  use: z.string(),
  reason: z.string(),
  ports: z.array(
    z.object({
      name: z.string(),
      link: z.string(),
      gid: z.string(),
      mtuBytes: z.int(),
      bitsPerSecond: unsigned,
      active: z.boolean(),
      used: z.boolean(),
      bytesReceived: unsigned,
      bytesSent: unsigned,
      requests: unsigned,
      failures: unsigned,
      retries: unsigned.default(0n),
      pauses: unsigned.default(0n),
      medianMicroseconds: unsigned.default(0n),
      p99Microseconds: unsigned.default(0n),
      inMessages: z.boolean().default(false),
    }),
  ),
  refused: z.array(z.object({ port: z.string(), reason: z.string() })),
  peers: z.int(),
  peersOverTcp: z.int(),
  peersReason: z.string(),
});
export type NodeRdma = z.output<typeof rdmaSchema>;

/** Like VolumeFigures of the control API. */
const volumeSchema = z.object({
  id: z.string(),
  leads: z.boolean(),
  error: z.string(),
  bytes: unsigned,
  files: unsigned,
  sessions: z.int(),
  sessionBytes: unsigned,
  evictedFiles: unsigned.default(0n),
  evictedYoungFiles: unsigned.default(0n),
  followers: z.array(z.object({ node: z.string(), listed: z.boolean(), lag: unsigned, error: z.string() })).default([]),
});
export type NodeVolume = z.output<typeof volumeSchema>;

/**
 * An agent's figures. Agents of releases without the feature `node-reports` write them to `stats/<node>`, leased, and so
 * does every agent while such an agent is a member (earlier_releases.ts).
 */
export const statisticsSchema = z.object({
  node: z.string(),
  budgetBytes: unsigned,
  usedBytes: unsigned,
  freeBytes: unsigned,
  pinnedBytes: unsigned,
  originBytes: unsigned,
  peerBytesReceived: unsigned,
  peerBytesSent: unsigned,
  corruptBlocks: unsigned,
  /** Milliseconds since the epoch. */
  startedAt: z.number(),
  /** The machine's capabilities, as far as probed. */
  capabilities: z
    .array(
      z.object({
        name: z.string(),
        ready: z.boolean(),
        reason: z.string(),
        pods: z.array(pod).optional(),
        podsLeftOut: z.int().optional(),
      }),
    )
    .default([]),
  /** Absent: RDMA is off. */
  rdma: rdmaSchema.optional(),
  /** Writable volumes whose log this agent has, or of which it has sessions. */
  volumes: z.array(volumeSchema).default([]),
  /** By dataset. */
  residency: z.record(z.string(), datasetResidencySchema),
});
export type NodeStatistics = z.output<typeof statisticsSchema>;

export function statisticsTable(store: Store) {
  return new RecordTable(store, 'stats/', statisticsSchema);
}

/** True for an agent of an earlier release, which keeps its figures in the store and cannot be asked for them. */
export function lacksReports({ apiFeatures }: Pick<Member, 'apiFeatures'>): boolean {
  return !apiFeatures.includes('node-reports');
}
