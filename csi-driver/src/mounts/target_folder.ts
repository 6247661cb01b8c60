import { constants } from 'node:fs';
import { type FileHandle, mkdir, open, readdir, realpath, rename, rmdir, symlink, unlink } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join, normalize, relative } from 'node:path';
import { CsiError, failedPrecondition, invalidArgument } from '../csi_error.ts';
import type { FolderEntry } from './mount_calls.ts';

/** From <fcntl.h>, missing in Node. Opening a path this way runs no code of its file system. */
const O_PATH = 0o10000000;
const folderFlags = O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW;
const longestPath = 4095;

/** A target by its name and its parent's descriptor. No step from the kubelet's directory down follows a link. */
export class TargetFolder implements AsyncDisposable {
  readonly #parent: FileHandle;
  readonly #name: string;
  readonly realPath: string;

  private constructor(parent: FileHandle, name: string, realPath: string) {
    this.#parent = parent;
    this.#name = name;
    this.realPath = realPath;
  }

  /** Undefined without the target's parent. Throws `INVALID_ARGUMENT` for an invalid target. */
  static async open(root: string, target: string): Promise<TargetFolder | undefined> {
    const inside = pathInside(root, target);
    const realRoot = await realpath(root);
    let folder = await open(realRoot, O_PATH | constants.O_DIRECTORY);
    try {
      const steps = dirname(inside) === '.' ? [] : dirname(inside).split('/');
      for (const step of steps) {
        const next = await open(`${childPath(folder.fd)}/${step}`, folderFlags);
        await folder.close();
        folder = next;
      }
    } catch (thrown) {
      await folder.close();
      const { code } = thrown as NodeJS.ErrnoException;
      if (code === 'ENOENT') return undefined;
      if (code === 'ENOTDIR' || code === 'ELOOP') throw notFolders(target);
      throw thrown;
    }
    return new TargetFolder(folder, basename(inside), join(realRoot, inside));
  }

  get #path(): string {
    return `${childPath(this.#parent.fd)}/${this.#name}`;
  }

  /** For a child process, which reaches the target as `/proc/self/fd/N/<name>`. */
  get parentDescriptor(): number {
    return this.#parent.fd;
  }

  get name(): string {
    return this.#name;
  }

  /** Requires that nothing is mounted here. An existing directory must be empty, since a mount would hide its files. */
  async make(): Promise<void> {
    try {
      await mkdir(this.#path, { mode: 0o750 });
      return;
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code !== 'EEXIST') throw thrown;
    }
    await using folder = await this.#open();
    const files = await readdir(childPath(folder.fd));
    if (files.length === 0) return;
    throw failedPrecondition(`the target ${this.realPath} is not empty and a mount would hide its files; empty it`);
  }

  /** Requires that nothing is mounted here. */
  async remove(): Promise<void> {
    try {
      await rmdir(this.#path);
    } catch (thrown) {
      const { code, message } = thrown as NodeJS.ErrnoException;
      if (code === 'ENOENT') return;
      throw new CsiError(
        'INTERNAL',
        `the target ${this.realPath} cannot be removed (${message}), though nothing is mounted there; remove it by hand`,
      );
    }
  }

  async withDescriptor<T>(use: (descriptor: number) => Promise<T>): Promise<T> {
    await using folder = await this.#open();
    return await use(folder.fd);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#parent.close();
  }

  async #open(): Promise<FileHandle> {
    try {
      return await open(this.#path, folderFlags);
    } catch (thrown) {
      const { code } = thrown as NodeJS.ErrnoException;
      if (code === 'ENOTDIR' || code === 'ELOOP') throw notFolders(this.realPath);
      throw thrown;
    }
  }
}

/** The normalized path, which names records. Throws `INVALID_ARGUMENT` unless it is absolute. */
export function normalTarget(target: string): string {
  if (target === '') throw invalidArgument('the target path is missing');
  if (!isAbsolute(target) || target.includes('\0')) {
    throw invalidArgument('the target path must be absolute and without NUL');
  }
  if (Buffer.byteLength(target) > longestPath) {
    throw invalidArgument(`the target path is longer than ${longestPath} bytes`);
  }
  const path = normalize(target);
  return path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path;
}

function pathInside(root: string, target: string): string {
  const inside = relative(normalize(root), normalTarget(target));
  if (inside !== '' && inside !== '..' && !inside.startsWith('../')) return inside;
  throw invalidArgument(`the target path ${target} is not below the kubelet's folder ${root}`);
}

function childPath(descriptor: number): string {
  return `/proc/self/fd/${descriptor}`;
}

function notFolders(target: string): CsiError {
  return invalidArgument(
    `the target path ${target} leads through a symbolic link or a file below the kubelet's folder; remove it`,
  );
}

/** See `MountCalls.replace`. Only this process may write to the directory. */
export async function replaceEntries(
  folder: string,
  entries: readonly FolderEntry[],
  group: number | undefined,
): Promise<void> {
  for (const entry of entries) {
    const partial = `${folder}/.${entry.name}.partial`;
    await unlinkIfPresent(partial);
    if ('link' in entry) await symlink(entry.link, partial);
    else await writeNew(partial, entry.text, group);
    await rename(partial, `${folder}/${entry.name}`);
  }
}

async function writeNew(path: string, text: string, group: number | undefined): Promise<void> {
  const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants;
  await using file = await open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o400);
  await file.writeFile(text);
  if (group !== undefined) await file.chown(0, group);
  await file.chmod(group === undefined ? 0o444 : 0o440);
}

/** Removes the rest of a crash. */
async function unlinkIfPresent(path: string): Promise<void> {
  await unlink(path).catch((thrown: NodeJS.ErrnoException) => {
    if (thrown.code !== 'ENOENT') throw thrown;
  });
}
