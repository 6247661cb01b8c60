import { z } from 'zod';
import { errorCodeSchema, unsigned } from '../records/index.ts';

/** `requests/<id>`, leased: something that each agent named does once and answers. All kinds are idempotent. */
export const requestSchema = z.object({
  id: z.string(),
  from: z.string(),
  nodes: z.array(z.string()),
  /**
   * drop: all pins of the dataset go, and its bytes when `evict` is set. release: mounts of the dataset that no published
   * volume uses go at once. letGo: as DONTNEED asks for; agents without the feature `advice` do not know it.
   */
  kind: z.enum(['pin', 'unpin', 'evict', 'drop', 'release', 'letGo']),
  dataset: z.string(),
  manifest: z.string(),
  paths: z.array(z.string()),
  owner: z.string(),
  /** Of pin and unpin: others who want the same. */
  moreOwners: z.array(z.string()).default([]),
  evict: z.boolean(),
  /** Of letGo: only what is in memory; and entries that stay whatever the paths say. */
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
  /** After `letGo`: from memory, and of the files kept how many for each reason. */
  memoryBytesFreed: unsigned.default(0n),
  filesPinned: z.int().default(0),
  filesOpen: z.int().default(0),
  filesPublished: z.int().default(0),
  /** After `release`: who uses the mounts that stay. */
  users: z.array(z.string()).default([]),
  errorCode: errorCodeSchema.optional(),
  message: z.string(),
});
export type AnswerRecord = z.output<typeof answerSchema>;
