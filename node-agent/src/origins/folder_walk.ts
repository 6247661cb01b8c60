import { isUtf8 } from 'node:buffer';
import type { Dir, Dirent } from 'node:fs';
import { opendir } from 'node:fs/promises';
import { HearthError } from '@hearth/common';
import { escapeBytes, type UnusableNames } from './unusable_names.ts';

/** An entry of a folder. `path` is relative to the root, with '/' between names. */
export interface FoundName {
  path: string;
  kind: 'emptyFolder' | 'other';
}

/** Number of folders read ahead, and of names of each held in memory. */
const foldersAhead = 16;
const namesAhead = 2048;

/**
 * Yields every file and empty folder below `root`, in no order, without following symbolic links. Memory is bounded by
 * the constants above and the folders not read yet. Passes names that are not UTF-8 to `unusable`. Throws
 * `OriginChanged` for a folder that vanishes, `PermissionDenied` for an unreadable one.
 */
export async function* walkFolders(root: string, unusable: Pick<UnusableNames, 'add'>): AsyncGenerator<FoundName> {
  const found = [''];
  const ahead: { reader: FolderReader; opened: Promise<void> }[] = [];
  let current: FolderReader | undefined;
  try {
    for (;;) {
      while (ahead.length < foldersAhead) {
        const path = found.pop();
        if (path === undefined) break;
        const reader = new FolderReader(root, path);
        const opened = reader.open();
        opened.catch(() => undefined); // awaited below, or unheard after a failure
        ahead.push({ reader, opened });
      }
      const next = ahead.shift();
      if (next === undefined) return;
      current = next.reader;
      await next.opened;
      const { path } = current;
      if (current.names.length === 0 && path !== '') yield { path, kind: 'emptyFolder' };
      for (; current.names.length > 0; await current.advance()) {
        for (const dirent of current.names) {
          if (!isUtf8(dirent.name)) {
            unusable.add(join(escapeBytes(Buffer.from(path)), escapeBytes(dirent.name)), 'not UTF-8');
          } else if (dirent.isDirectory()) {
            found.push(join(path, dirent.name.toString()));
          } else {
            yield { path: join(path, dirent.name.toString()), kind: 'other' };
          }
        }
      }
    }
  } finally {
    await current?.close();
    for (const { reader, opened } of ahead) await opened.catch(() => undefined).then(() => reader.close());
  }
}

/** Reads one folder's names in bounded portions; closes the folder after the last name. */
class FolderReader {
  readonly path: string;
  readonly #root: string;
  /** Undefined once all names are read. */
  #dir: Dir | undefined;
  names: Dirent<Buffer>[] = [];

  constructor(root: string, path: string) {
    this.#root = root;
    this.path = path;
  }

  /** Opens the folder and reads the first names. */
  async open(): Promise<void> {
    await this.#guarded(async () => {
      // The type declarations lack 'buffer', which readdir and opendir both support.
      const encoding = 'buffer' as BufferEncoding;
      this.#dir = await opendir(join(this.#root, this.path), { encoding, bufferSize: 256 });
    });
    await this.advance();
  }

  /** Reads the next names; none at the end. */
  async advance(): Promise<void> {
    this.names = [];
    const dir = this.#dir;
    if (dir === undefined) return;
    await this.#guarded(async () => {
      while (this.names.length < namesAhead) {
        const dirent = await dir.read();
        if (dirent === null) return await this.close();
        this.names.push(dirent as unknown as Dirent<Buffer>);
      }
    });
  }

  async close(): Promise<void> {
    const dir = this.#dir;
    this.#dir = undefined;
    await dir?.close();
  }

  async #guarded(call: () => Promise<void>): Promise<void> {
    try {
      await call();
    } catch (error) {
      throw nameError(error, this.path === '' ? 'the directory itself' : this.path);
    }
  }
}

function join(folder: string, name: string): string {
  return folder === '' ? name : name === '' ? folder : `${folder}/${name}`;
}

/** The error of a failed call on a name; the message contains the name relative to the root. */
export function nameError(thrown: unknown, name: string): HearthError {
  const code = (thrown as NodeJS.ErrnoException).code ?? 'unknown error';
  switch (code) {
    case 'ENOENT':
    case 'ENOTDIR':
      return new HearthError(
        'OriginChanged',
        `${name} vanished while the directory was listed; list it again when nothing writes to it`,
      );
    case 'EACCES':
    case 'EPERM':
      return new HearthError(
        'PermissionDenied',
        `${name} may not be read (${code}); change its permissions or the user the agent runs as`,
      );
    default:
      return new HearthError('IoError', `${name} cannot be read (${code}); check the file system and the kernel log`);
  }
}
