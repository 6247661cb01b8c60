import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { HearthError } from '@hearth/common';
import { z } from 'zod';

/**
 * One publish on this node, `<folder>/<id>.json`. Only the process that binds the mount into a pod writes and removes
 * the record. Other fields are ignored.
 */
const publishedSchema = z.object({
  dataset: z.string(),
  /** The id of a writable volume, or the digest of a manifest. */
  manifest: z.string().regex(/^(?:[0-9a-f]{32}){1,2}$/, '32 or 64 hexadecimal digits'),
  volume: z.string().optional(),
  dataPath: z.string().optional(),
  /** Absent when the publisher knows no pod. */
  pod: z.object({ namespace: z.string(), name: z.string(), uid: z.string().default('') }).optional(),
  /** Time at which the pod's mount was found dead; absent again once another mount was bound over it. */
  lostAt: z.string().optional(),
  /** Time at which another mount was bound over the pod's dead mount. */
  reboundAt: z.string().optional(),
  /** Earlier values of reboundAt. */
  reboundBefore: z.array(z.string()).optional(),
});
export type PublishedRecord = z.output<typeof publishedSchema>;

/**
 * Reads all records of a folder. Throws when the folder is missing or a record is unreadable, because treating that as
 * "nothing is published" would remove mounts in use.
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

/** A mount for pods. `dataset` undefined: shared by all datasets of the manifest. */
export interface Target {
  path: string;
  manifest: string;
  dataset: string | undefined;
}

/** True when a record names the mount. */
export function isNamed({ manifest, dataset }: Target, records: readonly PublishedRecord[]): boolean {
  return records.some((one) => one.manifest === manifest && (dataset === undefined || one.dataset === dataset));
}

/** The user of a published volume, for people. */
export function userOf({ pod, volume = 'without a name' }: PublishedRecord): string {
  return pod === undefined ? `volume ${volume}` : `pod ${pod.namespace}/${pod.name}`;
}

/** Undefined when the record was removed in the meantime. */
async function readOne(path: string): Promise<PublishedRecord | undefined> {
  try {
    return publishedSchema.parse(JSON.parse(await readFile(path, 'utf8')));
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    const reason = thrown instanceof z.ZodError ? z.prettifyError(thrown) : (thrown as Error).message;
    throw new HearthError('Corrupt', `the record ${path} of a published volume cannot be read: ${reason}`);
  }
}
