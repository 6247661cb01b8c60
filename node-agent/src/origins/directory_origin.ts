import { type BigIntStats, constants, realpathSync } from 'node:fs';
import { lstat, open, readlink, realpath, stat } from 'node:fs/promises';
import { isAbsolute, resolve } from 'node:path';
import { HearthError } from '@hearth/common';
import type { Location, ManifestRow } from '@hearth/engine';
import { directoryKey } from './content_key.ts';
import { readFirstByteOfFile } from './first_byte.ts';
import { type FoundName, nameError, walkFolders } from './folder_walk.ts';
import type { LocatableEntry, Origin, OriginBase, OriginRevision } from './origin.ts';
import { inPages, mapConcurrently } from './row_stream.ts';
import { statBelow } from './stat_below.ts';
import { UnusableNames } from './unusable_names.ts';

/** File system calls under way at once: more than the pool of libuv has threads, so that none of them waits for us. */
const callsAtOnce = 128;

export interface DirectoryOriginOptions {
  /** Absolute. */
  path: string;
  unusableNames: string;
  /** Absolute paths below which `path` must lie, as it is written and with symbolic links resolved; undefined: everywhere. */
  allowed: readonly string[] | undefined;
}

/** A directory that every agent sees under one path (NFS, hostPath). Content keys: path, times and size. */
export class DirectoryOrigin implements Origin {
  readonly kind = 'directory';
  readonly locatesFreely = true;
  readonly #root: string;
  readonly #unusableNames: string;
  readonly #allowed: readonly string[] | undefined;
  /** When it must be kept to. */
  #realRoot: string | undefined;
  #warnings: string[] = [];

  constructor(options: DirectoryOriginOptions) {
    if (!isAbsolute(options.path)) {
      throw new HearthError(
        'InvalidArgument',
        `the directory "${options.path}" is not an absolute path; every agent must see it under one path, such as /models/llama`,
      );
    }
    this.#root = resolve(options.path);
    this.#unusableNames = options.unusableNames;
    this.#allowed = options.allowed;
  }

  describe(): string {
    return this.#root;
  }

  async *list(signal: AbortSignal): AsyncGenerator<ManifestRow[]> {
    const unusable = new UnusableNames(this.#unusableNames);
    await this.#checkRoot();
    for await (const page of inPages(this.#rows(unusable))) {
      if (signal.aborted) throw new HearthError('Cancelled', `the listing of ${this.#root} was cancelled`);
      yield page;
    }
    this.#warnings = unusable.finish();
  }

  revision(): OriginRevision {
    return { name: '', warnings: this.#warnings };
  }

  /**
   * Where only some directories are allowed: what the directory is called without links, below the allowed one, which is
   * the administrator's. From there on the engine follows no link.
   */
  base(): OriginBase & { path: string; below: string } {
    if (this.#allowed === undefined) return { path: this.#root, below: this.#root };
    this.#allowedAbove(this.#root);
    try {
      const real = realpathSync(this.#root);
      return { path: real, below: this.#allowedAbove(real) };
    } catch (error) {
      throw rootError(error, this.#root);
    }
  }

  async locate(entries: LocatableEntry[]): Promise<Location[]> {
    const { path: root, below } = this.base();
    return entries.map(({ index, path }) => ({ entry: index, path: `${root === '/' ? '' : root}/${path}`, below }));
  }

  /** Read by the agent itself, which has no other rights from file to file. */
  partOf(): string {
    return '';
  }

  async readByte(entry: LocatableEntry): Promise<void> {
    for (const location of await this.locate([entry])) await readFirstByteOfFile(location);
  }

  close(): void {}

  async *#rows(unusable: UnusableNames): AsyncGenerator<ManifestRow> {
    const names = walkFolders(this.#root, unusable);
    for await (const row of mapConcurrently(names, callsAtOnce, (name) => this.#row(name, unusable))) {
      if (row !== undefined) yield row;
    }
  }

  async #row({ path, kind }: FoundName, unusable: UnusableNames): Promise<ManifestRow | undefined> {
    if (kind === 'emptyFolder') return { path, kind: 'directory', size: 0n };
    const full = `${this.#root === '/' ? '' : this.#root}/${path}`;
    try {
      // Where only some directories are allowed, whoever writes to one of them must not lead us out of it.
      const stats =
        this.#realRoot === undefined ? await lstat(full, { bigint: true }) : await statBelow(this.#realRoot, path);
      if (stats.isSymbolicLink()) return await symlinkRow(full, path, stats, unusable);
      if (stats.isFile()) return await fileRow(full, path, stats);
      if (stats.isDirectory())
        throw new HearthError(
          'OriginChanged',
          `${path} became a directory while it was listed; list it again when nothing writes to it`,
        );
      unusable.add(path, `a ${specialKind(stats)}, which has no content to cache`);
      return undefined;
    } catch (error) {
      throw error instanceof HearthError ? error.within(this.#root) : nameError(error, path).within(this.#root);
    }
  }

  async #checkRoot(): Promise<void> {
    // Before anything is looked at: no caller learns what there is where nothing may be read.
    if (this.#allowed !== undefined) this.#allowedAbove(this.#root);
    try {
      if (!(await stat(this.#root)).isDirectory()) {
        throw new HearthError('InvalidArgument', `${this.#root} is not a directory; give the directory that it is in`);
      }
      if (this.#allowed === undefined) return;
      const real = await realpath(this.#root);
      this.#allowedAbove(real);
      this.#realRoot = real;
    } catch (error) {
      throw rootError(error, this.#root);
    }
  }

  /** The allowed directory that a path lies in, `PermissionDenied` when there is none. */
  #allowedAbove(path: string): string {
    const allowed = this.#allowed ?? ['/'];
    for (const prefix of [...allowed.map((one) => resolve(one)), ...allowed.map(resolved)]) {
      if (isBelow(path, prefix)) return prefix;
    }
    const list = allowed.length === 0 ? 'none is' : `these are: ${allowed.join(', ')}`;
    throw new HearthError(
      'PermissionDenied',
      `directory origins may lie only below directories that are allowed (${list}), and ${this.#root} does not, symbolic links resolved; add its directory to the allowed ones of the agent`,
    );
  }
}

/** An allowed directory may itself be reached by a link. */
function resolved(prefix: string): string {
  try {
    return realpathSync(prefix);
  } catch {
    return prefix;
  }
}

function isBelow(path: string, prefix: string): boolean {
  return prefix === '/' || path === prefix || path.startsWith(`${prefix}/`);
}

async function fileRow(full: string, path: string, stats: BigIntStats): Promise<ManifestRow> {
  // What everyone may read, we may; else try, since permissions may also come from lists and capabilities.
  if ((stats.mode & 0o004n) === 0n) await (await open(full, constants.O_RDONLY | constants.O_NOFOLLOW)).close();
  return {
    path,
    kind: 'file',
    size: stats.size,
    contentKey: directoryKey(full, stats.mtimeNs, stats.ctimeNs, stats.size),
    validator: `stat:${stats.mtimeNs}:${stats.ctimeNs}`,
    executable: (stats.mode & 0o111n) !== 0n,
    modifiedAtNs: stats.mtimeNs,
  };
}

async function symlinkRow(
  full: string,
  path: string,
  stats: BigIntStats,
  unusable: UnusableNames,
): Promise<ManifestRow | undefined> {
  const target = await readlink(full, 'buffer');
  const symlinkTarget = target.toString();
  if (!Buffer.from(symlinkTarget).equals(target)) {
    unusable.add(path, 'its symbolic link points to a name that is not UTF-8');
    return undefined;
  }
  return { path, kind: 'symlink', size: 0n, symlinkTarget, modifiedAtNs: stats.mtimeNs };
}

function specialKind(stats: BigIntStats): string {
  if (stats.isFIFO()) return 'FIFO';
  if (stats.isSocket()) return 'socket';
  return stats.isBlockDevice() ? 'block device' : 'character device';
}

function rootError(thrown: unknown, root: string): HearthError {
  if (thrown instanceof HearthError) return thrown;
  const code = (thrown as NodeJS.ErrnoException).code;
  if (code === 'ENOENT' || code === 'ENOTDIR') {
    return new HearthError(
      'NotFound',
      `the directory ${root} does not exist on this node; check the path and that its file system is mounted`,
    );
  }
  return nameError(thrown, root);
}
