import { z } from 'zod';
import { errorCodeSchema, unsigned } from '../records/index.ts';

/** Stored: claimed on disk, verified and linked. Memory: checked in memory, where readers find it too. */
export const readyWhens = ['stored', 'memory'] as const;
export type ReadyWhen = (typeof readyWhens)[number];

/** `warm/jobs/<job>`: what was asked, and how it ended. Written by whoever creates, cancels or ends the job. */
export const warmJobSchema = z.object({
  name: z.string(),
  dataset: z.string(),
  /** The manifest is bound when the job is created: a later revision of the dataset does not change it. */
  manifest: z.string(),
  paths: z.array(z.string()),
  nodes: z.array(z.string()),
  pin: z.boolean(),
  /** Whose pins these are; empty: the job's own, which go when it fails. */
  pinOwner: z.string().default(''),
  /** Of jobs that want the same the lowest goes first. */
  priority: z.int(),
  /** Bytes a second from the origin, all agents together; 0: no limit. */
  rateLimit: unsigned,
  /** Bytes a second that each agent receives from others; 0: no limit. */
  peerRateLimit: unsigned.default(0n),
  /** Milliseconds since the epoch. */
  createdAt: z.number(),
  deadlineAt: z.number().optional(),
  verify: z.enum(['none', 'checksum', 'digest']),
  /** When it counts as ready; it goes on until everything is stored in any case. */
  readyWhen: z.enum(readyWhens).default('stored'),
  /** It is WILLNEED: for its nodes, or for the cluster, of which each of its nodes brings its part of what no agent holds. */
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

/** `warm/progress/<job>/<node>`: how far one agent is. Written by that agent only, at most twice a second. */
export const warmProgressSchema = z.object({
  job: z.string(),
  /** When the job was created: one of the same name that was created at another time is another job. 0: not known. */
  createdAt: z.number().default(0),
  node: z.string(),
  state: z.enum(nodeStates),
  bytesTotal: unsigned,
  /** In the cache on disk. */
  bytesReady: unsigned,
  /** These, and those that are in memory on their way there. Absent: the agent's release does not report it. */
  bytesInMemory: unsigned.optional(),
  filesTotal: z.int(),
  filesReady: z.int(),
  filesVerified: z.int(),
  originBytes: unsigned,
  peerBytes: unsigned,
  bytesVerified: unsigned.default(0n),
  /** Bytes a second that became ready, over the last seconds. */
  bytesPerSecond: unsigned,
  message: z.string(),
  errorCode: errorCodeSchema.optional(),
  /** When all was in memory, milliseconds since the epoch; one that begins after a restart counts again. */
  inMemoryAt: z.number().optional(),
  /** When its part had succeeded: all was stored. */
  storedAt: z.number().optional(),
});
export type WarmProgressRecord = z.output<typeof warmProgressSchema>;

/** `warm/division/<job>`: written by the coordinator. */
export const warmDivisionSchema = z.object({
  job: z.string(),
  /** Bytes a second from the origin by agent; empty when the job has no limit. */
  shares: z.record(z.string(), unsigned),
  /** Agents named that are gone: since when, milliseconds since the epoch by the coordinator's clock. */
  goneSince: z.record(z.string(), z.number()),
});
export type WarmDivisionRecord = z.output<typeof warmDivisionSchema>;
