import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { HearthError } from '@hearth/common';
import { z } from 'zod';

/**
 * One publish on this node, `<folder>/<id>.json`: written and removed by whoever binds the mount into a pod, and by
 * no other. Other fields are of no interest here.
 */
const publishedSchema = z.object({
  dataset: z.string(),
  manifest: z.string().regex(/^[0-9a-f]{64}$/, '64 hexadecimal digits'),
  volume: z.string().optional(),
  dataPath: z.string().optional(),
  /** Absent when the one who publishes knows of none. */
  pod: z.object({ namespace: z.string(), name: z.string(), uid: z.string().default('') }).optional(),
  /** When the mount that the pod was given was found dead; absent again when another one was bound over it. */
  lostAt: z.string().optional(),
  /** When another mount was bound over the one that the pod was given, which was dead. */
  reboundAt: z.string().optional(),
  /** The times before. */
  reboundBefore: z.array(z.string()).optional(),
});
export type PublishedRecord = z.output<typeof publishedSchema>;

/**
 * All records of a folder. A folder that is not there, or a record that cannot be read, is an error and not "nothing is
 * published": a mount that is still in use must not be removed on its account.
 */
export async function readPublished(folder: string): Promise<PublishedRecord[]> {
  let names: string[];
  try {
    names = await readdir(folder);
  } catch (thrown) {
    const reason = (thrown as Error).message;
    throw new HearthError('IoError', `the folder of published volumes cannot be read (${reason}); make it readable`);
  }
  const records = names.filter((name) => name.endsWith('.json')).map((name) => readOne(join(folder, name)));
  return (await Promise.all(records)).filter((record) => record !== undefined);
}

/** The user of a published volume, for people. */
export function userOf({ pod, volume = 'without a name' }: PublishedRecord): string {
  return pod === undefined ? `volume ${volume}` : `pod ${pod.namespace}/${pod.name}`;
}

/** Undefined when it was removed in the meantime. */
async function readOne(path: string): Promise<PublishedRecord | undefined> {
  try {
    return publishedSchema.parse(JSON.parse(await readFile(path, 'utf8')));
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    const reason = thrown instanceof z.ZodError ? z.prettifyError(thrown) : (thrown as Error).message;
    throw new HearthError('Corrupt', `the record ${path} of a published volume cannot be read: ${reason}`);
  }
}
