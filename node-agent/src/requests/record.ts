import { z } from 'zod';
import { errorCodeSchema, unsigned } from '../records/fields.ts';

/** `requests/<id>`, leased: something that each agent named does once and answers. All kinds are idempotent. */
export const requestSchema = z.object({
  id: z.string(),
  from: z.string(),
  nodes: z.array(z.string()),
  /** drop: all pins of the dataset go, and its bytes when `evict` is set. */
  kind: z.enum(['pin', 'unpin', 'evict', 'drop']),
  dataset: z.string(),
  manifest: z.string(),
  paths: z.array(z.string()),
  owner: z.string(),
  evict: z.boolean(),
});
export type RequestRecord = z.output<typeof requestSchema>;

/** `answers/<id>/<node>`, leased. */
export const answerSchema = z.object({
  node: z.string(),
  bytesFreed: unsigned,
  filesFreed: z.int(),
  filesKept: z.int(),
  errorCode: errorCodeSchema.optional(),
  message: z.string(),
});
export type AnswerRecord = z.output<typeof answerSchema>;
