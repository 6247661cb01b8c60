import { isUtf8 } from 'node:buffer';
import type { Dir, Dirent } from 'node:fs';
import { opendir } from 'node:fs/promises';
import { HearthError } from '@hearth/common';
import { escapeBytes, type UnusableNames } from './unusable_names.ts';

/** Something found in a folder. `path` is relative to the root, '/' between names. */
export interface FoundName {
  path: string;
  kind: 'emptyFolder' | 'other';
}

/** Folders read ahead, and names of each that are held in memory. */
const foldersAhead = 16;
const namesAhead = 2048;

interface OpenFolder {
  path: string;
  dir: Dir;
  names: Dirent<Buffer>[];
}

/**
 * Every name below `root` but folders with something in them, symbolic links not followed, in no order.
 * Memory is bounded by the constants above and the folders found and not yet read. Names that are not UTF-8
 * go to `unusable`. `OriginChanged` for a folder that vanishes, `PermissionDenied` for one that is closed.
 */
export async function* walkFolders(root: string, unusable: UnusableNames): AsyncGenerator<FoundName> {
  const found = [''];
  const ahead: Promise<OpenFolder>[] = [];
  const open = new Set<Dir>();
  try {
    for (;;) {
      while (ahead.length < foldersAhead) {
        const path = found.pop();
        if (path === undefined) break;
        const folder = openFolder(root, path, open);
        folder.catch(() => undefined); // awaited below, or unheard after a failure
        ahead.push(folder);
      }
      const next = ahead.shift();
      if (next === undefined) return;
      const folder = await next;
      if (folder.names.length === 0 && folder.path !== '') yield { path: folder.path, kind: 'emptyFolder' };
      while (folder.names.length > 0) {
        for (const dirent of folder.names) {
          if (!isUtf8(dirent.name)) {
            unusable.add(join(escapeBytes(Buffer.from(folder.path)), escapeBytes(dirent.name)), 'not UTF-8');
          } else if (dirent.isDirectory()) {
            found.push(join(folder.path, dirent.name.toString()));
          } else {
            yield { path: join(folder.path, dirent.name.toString()), kind: 'other' };
          }
        }
        folder.names = await readNames(folder.dir, folder.path);
      }
      open.delete(folder.dir);
      await folder.dir.close();
    }
  } finally {
    await Promise.allSettled(ahead);
    await Promise.allSettled([...open].map((dir) => dir.close()));
  }
}

async function openFolder(root: string, path: string, open: Set<Dir>): Promise<OpenFolder> {
  let dir: Dir;
  try {
    // The declared encodings leave out 'buffer', which readdir and opendir both know.
    dir = await opendir(join(root, path), { encoding: 'buffer' as BufferEncoding, bufferSize: 256 });
  } catch (error) {
    throw folderError(error, path);
  }
  open.add(dir);
  return { path, dir, names: await readNames(dir, path) };
}

async function readNames(dir: Dir, path: string): Promise<Dirent<Buffer>[]> {
  const names: Dirent<Buffer>[] = [];
  try {
    while (names.length < namesAhead) {
      const dirent = await dir.read();
      if (dirent === null) break;
      names.push(dirent as unknown as Dirent<Buffer>);
    }
  } catch (error) {
    throw folderError(error, path);
  }
  return names;
}

function join(folder: string, name: string): string {
  return folder === '' ? name : name === '' ? folder : `${folder}/${name}`;
}

function folderError(thrown: unknown, path: string): HearthError {
  return nameError(thrown, path === '' ? 'the directory itself' : path);
}

/** What a failed call on a name means: the message says the name, relative to the root. */
export function nameError(thrown: unknown, name: string): HearthError {
  const code = (thrown as NodeJS.ErrnoException).code ?? 'unknown error';
  switch (code) {
    case 'ENOENT':
    case 'ENOTDIR':
      return new HearthError(
        'OriginChanged',
        `${name} vanished while the directory was listed; list it again when nobody writes to it`,
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
