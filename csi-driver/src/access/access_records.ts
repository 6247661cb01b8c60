import type { Logger } from '@hearth/common';
import { z } from 'zod';
import { RecordFiles } from '../records/index.ts';

/** One folder of client access in a pod: everything that a renewal needs, and nothing secret. */
const accessSchema = z.object({
  /** Of the target: `recordId`. */
  id: z.string(),
  volume: z.string(),
  target: z.string(),
  /** As the agents name them. */
  datasets: z.array(z.string()),
  rights: z.array(z.enum(['read', 'advise'])),
  /** Group that may read the files; absent: every user of the pod may. */
  group: z.number().optional(),
  pod: z.object({ namespace: z.string(), name: z.string(), uid: z.string() }).optional(),
  publishedAt: z.string(),
});
export type AccessRecord = z.output<typeof accessSchema>;

/** The files `<state>/<cluster>/client-access/<id>.json`: a record is there before its mount is, and goes after it. */
export class AccessRecords extends RecordFiles<AccessRecord> {
  constructor(stateDirectory: string, logger: Logger) {
    super(stateDirectory, logger, 'client-access', accessSchema);
  }
}
