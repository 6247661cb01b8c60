import type { Logger } from '@hearth/common';
import { z } from 'zod';
import { RecordFiles } from '../records/index.ts';

const decimal = z
  .string()
  .regex(/^\d{1,20}$/, 'a decimal number')
  .transform(BigInt);

const publishedSchema = z.object({
  id: z.string(),
  volume: z.string(),
  target: z.string(),
  dataset: z.string(),
  manifest: z.string(),
  dataPath: z.string(),
  bytes: decimal,
  files: decimal,
  /** Absent without podInfoOnMount. */
  pod: z.object({ namespace: z.string(), name: z.string(), uid: z.string() }).optional(),
  /** Records of the previous release lack this field. */
  noexec: z.boolean().optional(),
  /** Present for a writable volume whose pod may write. */
  writable: z.boolean().optional(),
  publishedAt: z.string(),
  /** When the mount was found dead; removed by a rebinding. */
  lostAt: z.string().optional(),
  /** When the last rebinding began; agents report it. */
  reboundAt: z.string().optional(),
  /** The new file system (`major:minor`): another one is another rebinding, the same one a retry. */
  reboundTo: z.string().optional(),
  /** Earlier rebindings, the newest last. */
  reboundBefore: z.array(z.string()).optional(),
});
export type PublishedRecord = z.output<typeof publishedSchema>;

const maxBefore = 15;

/** Called before the bind; returns the same record for a retry. Completed rebindings never share a device number. */
export function withRebinding(record: PublishedRecord, { device }: { device: string }, now: Date): PublishedRecord {
  const { lostAt, ...kept } = record;
  const { reboundAt, reboundTo, reboundBefore = [] } = kept;
  if (lostAt === undefined && reboundAt !== undefined && reboundTo === device) return record;
  const before = reboundAt === undefined ? [] : [...reboundBefore, reboundAt].slice(-maxBefore);
  return { ...kept, reboundAt: now.toISOString(), reboundTo: device, reboundBefore: before };
}

/** `<state>/<cluster>/published/<id>.json` pins its mount at the agent: it precedes the mount and outlives it. */
export class PublishedRecords extends RecordFiles<PublishedRecord> {
  constructor(stateDirectory: string, logger: Logger) {
    super(stateDirectory, logger, 'published', publishedSchema);
  }
}
