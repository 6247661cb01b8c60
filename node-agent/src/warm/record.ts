import { z } from 'zod';
import { errorCodeSchema, unsigned } from '../records/index.ts';

/** Stored: on disk, verified and linked. Memory: verified in memory, where readers find the bytes. */
export const readyWhens = ['stored', 'memory'] as const;
export type ReadyWhen = (typeof readyWhens)[number];

/** `warm/jobs/<job>`: the request and the outcome. Written by the agent that creates, cancels or ends the job. */
export const warmJobSchema = z.object({
  name: z.string(),
  dataset: z.string(),
  /** Bound at creation: a later revision of the dataset does not change the job. */
  manifest: z.string(),
  paths: z.array(z.string()),
  nodes: z.array(z.string()),
  pin: z.boolean(),
  /** Owner of the pins; empty: the job itself, whose pins go when it fails. */
  pinOwner: z.string().default(''),
  /** Lower numbers run first when jobs want the same bytes. */
  priority: z.int(),
  /** Bytes a second from the origin, all agents together; 0: no limit. */
  rateLimit: unsigned,
  /** Bytes a second that each agent receives from peers; 0: no limit. */
  peerRateLimit: unsigned.default(0n),
  /** Milliseconds since the epoch. */
  createdAt: z.number(),
  deadlineAt: z.number().optional(),
  verify: z.enum(['none', 'checksum', 'digest']),
  /** When the job counts as ready. The job always continues until everything is stored. */
  readyWhen: z.enum(readyWhens).default('stored'),
  /**
   * Set for WILLNEED advice. node: each node fetches everything; cluster: the nodes share the bytes that no agent
   * holds.
   */
  advice: z.enum(['node', 'cluster']).optional(),
  cancelledAt: z.number().optional(),
  end: z
    .object({
      state: z.enum(['Succeeded', 'Failed', 'Cancelled']),
      message: z.string(),
      errorCode: errorCodeSchema.optional(),
      at: z.number(),
    })
    .optional(),
});
export type WarmJobRecord = z.output<typeof warmJobSchema>;

export const nodeStates = ['Pending', 'Running', 'Verifying', 'Succeeded', 'Failed', 'Cancelled'] as const;
export type NodeState = (typeof nodeStates)[number];

/** `warm/progress/<job>/<node>`: progress of one agent, written by that agent at most twice a second. */
export const warmProgressSchema = z.object({
  job: z.string(),
  /** Creation time of the job, to tell jobs of the same name apart. 0: unknown. */
  createdAt: z.number().default(0),
  node: z.string(),
  state: z.enum(nodeStates),
  bytesTotal: unsigned,
  /** Bytes in the cache on disk. */
  bytesReady: unsigned,
  /** bytesReady and bytes in memory on their way to disk. Absent: the agent's release does not report it. */
  bytesInMemory: unsigned.optional(),
  filesTotal: z.int(),
  filesReady: z.int(),
  filesVerified: z.int(),
  originBytes: unsigned,
  peerBytes: unsigned,
  bytesVerified: unsigned.default(0n),
  /** Recent speed: bytes a second that became ready. */
  bytesPerSecond: unsigned,
  message: z.string(),
  errorCode: errorCodeSchema.optional(),
  /** When all was in memory, milliseconds since the epoch; measured anew after a restart. */
  inMemoryAt: z.number().optional(),
  /** When the part succeeded with all bytes stored. */
  storedAt: z.number().optional(),
});
export type WarmProgressRecord = z.output<typeof warmProgressSchema>;

/** `warm/division/<job>`: written by the coordinator. */
export const warmDivisionSchema = z.object({
  job: z.string(),
  /** Bytes a second from the origin by agent; empty when the job has no limit. */
  shares: z.record(z.string(), unsigned),
  /** Absent agents of the job, with the start of absence in milliseconds since the epoch by the coordinator's clock. */
  goneSince: z.record(z.string(), z.number()),
});
export type WarmDivisionRecord = z.output<typeof warmDivisionSchema>;
