import { constants } from 'node:fs';
import { type FileHandle, mkdir, open, readdir, realpath, rmdir } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join, normalize, relative } from 'node:path';
import { CsiError, invalidArgument } from '../csi_error.ts';

/** From <fcntl.h>; Node has no name for it. A descriptor of the path only: opening it runs no file system's code. */
const O_PATH = 0o10000000;
const folderFlags = O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW;
const longestPath = 4095;

/**
 * The place of one target: its parent held open, and its name. Every step from the kubelet's folder down was opened
 * in the one before without following links, so none who can write there can lead us elsewhere.
 */
export class TargetFolder implements AsyncDisposable {
  readonly #parent: FileHandle;
  readonly #name: string;
  /** As mountinfo names it. */
  readonly realPath: string;

  private constructor(parent: FileHandle, name: string, realPath: string) {
    this.#parent = parent;
    this.#name = name;
    this.realPath = realPath;
  }

  /** Undefined when the parent of the target is not there. `INVALID_ARGUMENT` when the path cannot be a target. */
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

  /** Path of the target for this process, as long as this is open. */
  get #path(): string {
    return `${childPath(this.#parent.fd)}/${this.#name}`;
  }

  /** Descriptor of the parent, for a child process, in which it is reached as `/proc/self/fd/N/<name>`. */
  get parentDescriptor(): number {
    return this.#parent.fd;
  }

  get name(): string {
    return this.#name;
  }

  /** Only while nothing is mounted here. A folder that is there must be empty, since a mount would hide its files. */
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
    throw new CsiError(
      'FAILED_PRECONDITION',
      `the target ${this.realPath} is not empty and a mount would hide its files; empty it`,
    );
  }

  /** Only while nothing is mounted here. */
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

  /** Runs with a descriptor of the target itself. */
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

/** The same path written in one way, by which records are named. `INVALID_ARGUMENT` when it is no absolute path. */
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
