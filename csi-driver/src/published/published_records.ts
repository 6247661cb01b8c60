import { constants } from 'node:fs';
import { mkdir, open, readdir, readFile, rename, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from '@hearth/common';
import { decodeRecord, encodeRecord, type PublishedRecord, publishedId } from './published_record.ts';

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

  /** What a crash left of writing. Not while records are being written. */
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
    this.#logger.warn('ignoring a file that is no record of a published volume', { path });
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
