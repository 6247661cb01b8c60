import { createHash } from 'node:crypto';
import { z } from 'zod';

const decimal = z
  .string()
  .regex(/^\d{1,20}$/, 'a decimal number')
  .transform(BigInt);

/** One publish: what is mounted at a target, and what the manifest says of its size. Numbers are text in JSON. */
export const publishedSchema = z.object({
  /** Of the target: `publishedId`. */
  id: z.string(),
  volume: z.string(),
  target: z.string(),
  /** As the agents name it. */
  dataset: z.string(),
  manifest: z.string(),
  dataPath: z.string(),
  bytes: decimal,
  files: decimal,
  /** Absent when the kubelet told nothing of a pod. */
  pod: z.object({ namespace: z.string(), name: z.string(), uid: z.string() }).optional(),
  publishedAt: z.string(),
  /** When the mount that the pod was given was dead, and another one was about to be bound over it: agents tell of it. */
  reboundAt: z.string().optional(),
});
export type PublishedRecord = z.output<typeof publishedSchema>;

/** Name of a record: the first 32 hexadecimal digits of the SHA-256 of the target path. */
export function publishedId(target: string): string {
  return createHash('sha256').update(target).digest('hex').slice(0, 32);
}

/** `format` is the version of the record's form: readers ignore fields that they do not know, so a new field is no new one. */
export function encodeRecord(record: PublishedRecord): string {
  return `${JSON.stringify({ format: 1, ...record, bytes: `${record.bytes}`, files: `${record.files}` }, null, 1)}\n`;
}

/** Undefined when the text is no record. */
export function decodeRecord(text: string): PublishedRecord | undefined {
  try {
    return publishedSchema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}
