import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { mkdir, open, readdir, readFile, rename, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from '@hearth/common';
import { z } from 'zod';
import type { MountCalls } from '../mounts/index.ts';

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

export interface StoredRecord {
  cluster: string;
  /** Of the file, which is named by the target even if the record cannot be read. */
  id: string;
  /** Undefined when the file is no record. */
  record: PublishedRecord | undefined;
}

const suffix = '.json';
/** Not read by agents, which look for the other suffix. */
const partial = '.partial';

/**
 * The files `<state>/<cluster>/published/<id>.json`. They are pins: while one is there the agent keeps what it names
 * mounted. So a record is on the disk before its mount is made, and goes after its mount has gone.
 */
export class PublishedRecords {
  readonly #stateDirectory: string;
  readonly #logger: Logger;

  constructor(stateDirectory: string, logger: Logger) {
    this.#stateDirectory = stateDirectory;
    this.#logger = logger;
  }

  /** Of whatever cluster it is. A file that cannot be read as a record counts as none, and is logged. */
  async find(target: string): Promise<PublishedRecord | undefined> {
    const id = publishedId(target);
    for (const cluster of await this.#clusters()) {
      const record = await this.#read(cluster, id);
      if (record !== undefined) return record;
    }
    return undefined;
  }

  async all(): Promise<StoredRecord[]> {
    const stored: StoredRecord[] = [];
    for (const cluster of await this.#clusters()) {
      for (const name of await listFolder(this.#folder(cluster))) {
        if (!name.endsWith(suffix)) continue;
        const id = name.slice(0, -suffix.length);
        stored.push({ cluster, id, record: await this.#read(cluster, id) });
      }
    }
    return stored;
  }

  /** On the disk when it resolves: written aside, synced, renamed, and the folder synced. */
  async write(cluster: string, record: PublishedRecord): Promise<void> {
    const folder = this.#folder(cluster);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const path = join(folder, `${record.id}${suffix}`);
    const aside = join(folder, `.${record.id}${partial}`);
    await using file = await open(aside, 'w', 0o600);
    await file.writeFile(encodeRecord(record));
    await file.sync();
    await rename(aside, path);
    await syncFolder(folder);
  }

  /** In every cluster. No error when there is none. */
  async remove(target: string): Promise<void> {
    for (const cluster of await this.#clusters()) await this.removeFile(cluster, publishedId(target));
  }

  async removeFile(cluster: string, id: string): Promise<void> {
    if (await unlinked(join(this.#folder(cluster), `${id}${suffix}`))) await syncFolder(this.#folder(cluster));
  }

  /** Removes partial files of a crash. Not while records are being written. */
  async removePartial(): Promise<void> {
    for (const cluster of await this.#clusters()) {
      for (const name of await listFolder(this.#folder(cluster))) {
        if (name.endsWith(partial)) await unlinked(join(this.#folder(cluster), name));
      }
    }
  }

  #folder(cluster: string): string {
    return join(this.#stateDirectory, cluster, 'published');
  }

  async #clusters(): Promise<string[]> {
    return (await listFolder(this.#stateDirectory)).sort();
  }

  async #read(cluster: string, id: string): Promise<PublishedRecord | undefined> {
    const path = join(this.#folder(cluster), `${id}${suffix}`);
    let text: string;
    try {
      text = await readFile(path, 'utf8');
    } catch (thrown) {
      const { code } = thrown as NodeJS.ErrnoException;
      if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
      throw thrown;
    }
    const record = decodeRecord(text);
    if (record?.id === id && publishedId(record.target) === id) return record;
    this.#logger.warn('ignoring a file that is not a record of a published volume', { path });
    return undefined;
  }
}

async function listFolder(path: string): Promise<string[]> {
  try {
    return await readdir(path);
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return [];
    throw thrown;
  }
}

async function unlinked(path: string): Promise<boolean> {
  try {
    await unlink(path);
    return true;
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return false;
    throw thrown;
  }
}

async function syncFolder(path: string): Promise<void> {
  await using folder = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
  await folder.sync();
}

export interface Reconciled {
  kept: number;
  removed: number;
}

/**
 * Once at the start, before any call is served: a record without a mount is what a crash left between two steps, or
 * a reboot of the node, which takes all mounts and no records. It is removed, so that it pins nothing; the kubelet
 * publishes again what pods still need. Records with a mount stay. Target folders are the kubelet's to unpublish.
 */
export async function reconcilePublished(
  records: PublishedRecords,
  mounts: MountCalls,
  logger: Logger,
): Promise<Reconciled> {
  await records.removePartial();
  const points = new Set((await mounts.table()).map((entry) => entry.mountPoint));
  // A file that is no record is known by its name alone.
  const mountedIds = new Set([...points].map(publishedId));
  const outcome: Reconciled = { kept: 0, removed: 0 };
  for (const { cluster, id, record } of await records.all()) {
    const path = record === undefined ? undefined : await resolved(mounts, record.target);
    const mounted = path === undefined ? mountedIds.has(id) : points.has(path);
    if (mounted) {
      outcome.kept++;
      continue;
    }
    logger.info('removed the record of a published volume whose mount is gone', {
      cluster,
      volume: record?.volume,
      target: record?.target,
    });
    await records.removeFile(cluster, id);
    outcome.removed++;
  }
  return outcome;
}

/** Undefined also for a target that lies elsewhere now, as when the kubelet's folder was moved. */
async function resolved(mounts: MountCalls, target: string): Promise<string | undefined> {
  return await mounts.resolve(target).catch(() => undefined);
}
