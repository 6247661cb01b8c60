import { z } from 'zod';
import { errorCodeSchema, unsigned } from '../records/index.ts';

/** `requests/<id>`, leased: an action that each named agent executes once and answers. All kinds are idempotent. */
export const requestSchema = z.object({
  id: z.string(),
  from: z.string(),
  nodes: z.array(z.string()),
  /**
   * drop: releases all pins of the dataset, and evicts its bytes when `evict` is set. release: unmounts mounts of the
   * dataset without a published volume. letGo: DONTNEED; agents without the feature `advice` do not know it.
   */
  kind: z.enum(['pin', 'unpin', 'evict', 'drop', 'release', 'letGo']),
  dataset: z.string(),
  manifest: z.string(),
  paths: z.array(z.string()),
  owner: z.string(),
  /** For pin and unpin: further owners of the same request. */
  moreOwners: z.array(z.string()).default([]),
  evict: z.boolean(),
  /** For letGo: release memory only; and entries that stay whatever the paths say. */
  memoryOnly: z.boolean().default(false),
  keep: z.array(z.int()).default([]),
});
export type RequestRecord = z.output<typeof requestSchema>;

/** `answers/<id>/<node>`, leased. */
export const answerSchema = z.object({
  node: z.string(),
  bytesFreed: unsigned,
  filesFreed: z.int(),
  filesKept: z.int(),
  /** For letGo: bytes freed in memory; numbers of kept files by reason. */
  memoryBytesFreed: unsigned.default(0n),
  filesPinned: z.int().default(0),
  filesOpen: z.int().default(0),
  filesPublished: z.int().default(0),
  /** For release: users of the remaining mounts. */
  users: z.array(z.string()).default([]),
  errorCode: errorCodeSchema.optional(),
  message: z.string(),
});
export type AnswerRecord = z.output<typeof answerSchema>;
