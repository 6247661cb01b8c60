import type { Logger } from '@hearth/common';
import { z } from 'zod';
import { RecordFiles } from '../records/index.ts';

const decimal = z
  .string()
  .regex(/^\d{1,20}$/, 'a decimal number')
  .transform(BigInt);

/** One publish: what is mounted at a target, and what the manifest says of its size. */
const publishedSchema = z.object({
  /** Of the target: `recordId`. */
  id: z.string(),
  volume: z.string(),
  target: z.string(),
  /** As the agents name it. */
  dataset: z.string(),
  manifest: z.string(),
  dataPath: z.string(),
  bytes: decimal,
  files: decimal,
  /** Absent when the kubelet named no pod. */
  pod: z.object({ namespace: z.string(), name: z.string(), uid: z.string() }).optional(),
  /** True when the pod may run no programs of it. Records of the previous release lack this field. */
  noexec: z.boolean().optional(),
  publishedAt: z.string(),
  /** When the mount that the pod was given was found dead, until another one is about to be bound over it. */
  lostAt: z.string().optional(),
  /** When the mount that the pod was given was dead, and another one was about to be bound over it: agents report it. */
  reboundAt: z.string().optional(),
  /** The file system (`major:minor`) that this was: another one is another death, the same one another try. */
  reboundTo: z.string().optional(),
  /** The times before `reboundAt`, the newest last. */
  reboundBefore: z.array(z.string()).optional(),
});
export type PublishedRecord = z.output<typeof publishedSchema>;

/** Rebindings that a record remembers beside the last one; agents report each. */
const maxBefore = 15;

/**
 * The record with this rebinding, for which it is written before anything is bound; the same record when it says so
 * already, as after a try that failed. What is bound at a target keeps its file system's number from being given to
 * another one, so two rebindings that were done never have the same.
 */
export function withRebinding(record: PublishedRecord, { device }: { device: string }, now: Date): PublishedRecord {
  const { lostAt, ...kept } = record;
  const { reboundAt, reboundTo, reboundBefore = [] } = kept;
  if (lostAt === undefined && reboundAt !== undefined && reboundTo === device) return record;
  const before = reboundAt === undefined ? [] : [...reboundBefore, reboundAt].slice(-maxBefore);
  return { ...kept, reboundAt: now.toISOString(), reboundTo: device, reboundBefore: before };
}

/**
 * The files `<state>/<cluster>/published/<id>.json`. They are pins: while one is there the agent keeps what it names
 * mounted. So a record is on the disk before its mount is made, and goes after its mount has gone.
 */
export class PublishedRecords extends RecordFiles<PublishedRecord> {
  constructor(stateDirectory: string, logger: Logger) {
    super(stateDirectory, logger, 'published', publishedSchema);
  }
}
