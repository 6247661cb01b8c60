import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { mkdir, open, readFile, rename, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { HearthError, type Logger } from '@hearth/common';
import type { z } from 'zod';
import { CsiError } from '../csi_error.ts';
import { listFolder } from '../list_folder.ts';
import type { MountCalls } from '../mounts/index.ts';

export type TargetRecord = { id: string; volume: string; target: string };

export function recordId(target: string): string {
  return createHash('sha256').update(target).digest('hex').slice(0, 32);
}

/** Throws `ALREADY_EXISTS` when another volume is published at the target. */
export function checkVolume({ volume: present, target }: TargetRecord, volume: string): void {
  if (present === volume) return;
  throw new CsiError(
    'ALREADY_EXISTS',
    `volume ${present} is published at ${target} and not ${volume}; unpublish it first`,
  );
}

/** True when another volume is published at the target, which an unpublish must keep. */
export function isOfAnother({ volume: present, target }: TargetRecord, volume: string, logger: Logger): boolean {
  if (present !== volume) logger.warn('kept a target: another volume is published there', { volume, target, present });
  return present !== volume;
}

/** Undoes a failed publish, since the kubelet does not unpublish after a final error. */
export async function rollBack(target: string, remove: (target: string) => Promise<void>, logger: Logger) {
  await remove(target).catch((thrown: unknown) => {
    const error = HearthError.from(thrown);
    logger.warn('failed to roll back a failed publish; the next publish or start rolls it back', { target, error });
  });
}

export interface StoredRecord<T> {
  cluster: string;
  /** The name of the file, known for unreadable records, too. */
  id: string;
  record: T | undefined;
}

const suffix = '.json';
/** Agents ignore this suffix. */
const partial = '.partial';

/** The format version. Readers ignore unknown fields, so a new field does not change it. */
const format = 1;

/** `<state>/<cluster>/<folder>/<id>.json`, one for each target. Concurrent calls must differ in their target. */
export class RecordFiles<T extends TargetRecord> {
  readonly #stateDirectory: string;
  readonly #logger: Logger;
  readonly #name: string;
  readonly #schema: z.ZodType<T>;

  constructor(stateDirectory: string, logger: Logger, folder: string, schema: z.ZodType<T>) {
    this.#stateDirectory = stateDirectory;
    this.#logger = logger;
    this.#name = folder;
    this.#schema = schema;
  }

  /** Searches every cluster. Logs and skips an unreadable file. */
  async find(target: string): Promise<T | undefined> {
    return (await this.locate(target))?.record;
  }

  async locate(target: string): Promise<{ cluster: string; record: T } | undefined> {
    const id = recordId(target);
    for (const cluster of await this.#clusters()) {
      const record = await this.#read(cluster, id);
      if (record !== undefined) return { cluster, record };
    }
    return undefined;
  }

  async all(): Promise<StoredRecord<T>[]> {
    const stored: StoredRecord<T>[] = [];
    for (const cluster of await this.#clusters()) {
      for (const name of await listFolder(this.#folder(cluster))) {
        if (!name.endsWith(suffix)) continue;
        const id = name.slice(0, -suffix.length);
        stored.push({ cluster, id, record: await this.#read(cluster, id) });
      }
    }
    return stored;
  }

  /** Durable when resolved: written to a partial file, synced, renamed, and the directory synced. */
  async write(cluster: string, record: T): Promise<void> {
    const folder = this.#folder(cluster);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const path = join(folder, `${record.id}${suffix}`);
    const partialPath = join(folder, `.${record.id}${partial}`);
    await using file = await open(partialPath, 'w', 0o600);
    await file.writeFile(`${JSON.stringify({ format, ...record }, decimals, 1)}\n`);
    await file.sync();
    await rename(partialPath, path);
    await syncFolder(folder);
  }

  /** Idempotent. Searches every cluster. */
  async remove(target: string): Promise<void> {
    for (const cluster of await this.#clusters()) await this.removeFile(cluster, recordId(target));
  }

  async removeFile(cluster: string, id: string): Promise<void> {
    if (await unlinked(join(this.#folder(cluster), `${id}${suffix}`))) await syncFolder(this.#folder(cluster));
  }

  /** Removes partial files of a crash; must not overlap with writes. */
  async removePartial(): Promise<void> {
    for (const cluster of await this.#clusters()) {
      for (const name of await listFolder(this.#folder(cluster))) {
        if (name.endsWith(partial)) await unlinked(join(this.#folder(cluster), name));
      }
    }
  }

  #folder(cluster: string): string {
    return join(this.#stateDirectory, cluster, this.#name);
  }

  async #clusters(): Promise<string[]> {
    return (await listFolder(this.#stateDirectory)).sort();
  }

  async #read(cluster: string, id: string): Promise<T | undefined> {
    const path = join(this.#folder(cluster), `${id}${suffix}`);
    let text: string;
    try {
      text = await readFile(path, 'utf8');
    } catch (thrown) {
      const { code } = thrown as NodeJS.ErrnoException;
      if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
      throw thrown;
    }
    const record = this.#decode(text);
    if (record?.id === id && recordId(record.target) === id) return record;
    this.#logger.warn('ignoring a file that is not a record of a published volume', { path });
    return undefined;
  }

  #decode(text: string): T | undefined {
    try {
      return this.#schema.safeParse(JSON.parse(text)).data;
    } catch {
      return undefined;
    }
  }
}

const decimals = (_key: string, value: unknown) => (typeof value === 'bigint' ? `${value}` : value);

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

/**
 * Runs once before calls are served. Removes records without a mount, which a crash or a reboot leaves, so that they
 * pin nothing; the kubelet publishes again for living pods. Keeps records with a mount, and target directories, which
 * the kubelet unpublishes.
 */
export async function reconcileRecords<T extends TargetRecord>(
  records: RecordFiles<T>,
  mounts: MountCalls,
  logger: Logger,
): Promise<{ kept: number; removed: number }> {
  await records.removePartial();
  const points = new Set((await mounts.table()).map((entry) => entry.mountPoint));
  // An unreadable record is known by its name alone.
  const mountedIds = new Set([...points].map(recordId));
  const outcome = { kept: 0, removed: 0 };
  for (const { cluster, id, record } of await records.all()) {
    const path = record === undefined ? undefined : await resolved(mounts, record.target);
    const mounted = path === undefined ? mountedIds.has(id) : points.has(path);
    if (mounted) {
      outcome.kept++;
      continue;
    }
    const { volume, target } = record ?? {};
    logger.info('removed the record of a published volume whose mount is gone', { cluster, volume, target });
    await records.removeFile(cluster, id);
    outcome.removed++;
  }
  return outcome;
}

/** Also undefined for a target outside of the kubelet's present directory. */
async function resolved(mounts: MountCalls, target: string): Promise<string | undefined> {
  return await mounts.resolve(target).catch(() => undefined);
}
