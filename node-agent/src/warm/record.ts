import { z } from 'zod';
import { errorCodeSchema, unsigned } from '../records/index.ts';

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
  bytesReady: unsigned,
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
