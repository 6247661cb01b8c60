import { type BigIntStats, constants } from 'node:fs';
import { lstat, open, readlink, realpath, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { HearthError } from '@hearth/common';
import type { ManifestRow } from '@hearth/engine';
import { directoryKey } from './content_key.ts';
import {
  allowedAbove,
  fileBehind,
  LeavingLinks,
  type LinkedFile,
  leavesTree,
  refuseFolder,
} from './directory_links.ts';
import { type FoundName, nameError, walkFolders } from './folder_walk.ts';
import type { OriginBase } from './origin.ts';
import { inPages, mapConcurrently } from './row_stream.ts';
import { statBelow } from './stat_below.ts';
import { UnusableNames } from './unusable_names.ts';

/** Concurrent file system calls; more than libuv has threads, so that no thread idles. */
const maxConcurrentCalls = 128;

export interface Tree {
  /** Absolute, normalized. */
  root: string;
  /** Absolute paths that must contain `root`, both as written and with links resolved; undefined: no limit. */
  allowed: readonly string[] | undefined;
}

export type FilePlace = Pick<LinkedFile, 'path' | 'below'>;

/** The result of a listing. */
export interface ListedTree {
  warnings: string[];
  /** True when links out of the tree were followed, so that each file must be located separately (`placesOf`). */
  followed: boolean;
}

/**
 * Yields the rows of a tree in pages; returns warnings. Resolves links to files and folders in allowed directories
 * outside the tree. Calls `moved` for each row. Blocks threads of this process while the file system hangs, so it must
 * run in its own process (`DirectoryCalls`).
 */
export async function* listTree(
  { root, allowed }: Tree,
  unusableNames: string,
  moved: () => void,
): AsyncGenerator<ManifestRow[], ListedTree> {
  const unusable = new UnusableNames(unusableNames);
  const realRoot = await checkRoot(root, allowed);
  const links = new LeavingLinks(root);
  let hasFiles = false;
  const walk: Walk = { root, allowed, unusable, links, moved, branches: [{ prefix: '', root, realRoot, trail: [] }] };
  for await (const page of inPages(rowsOf(walk))) {
    hasFiles ||= page.some(({ kind }) => kind === 'file');
    yield page;
  }
  return { warnings: [...unusable.finish(), ...links.finish(hasFiles)], followed: links.followed };
}

/**
 * Absolute paths of these files, in order, with links out of the tree resolved; undefined for a missing file. Blocks
 * like `listTree`.
 */
export async function placesOf({ root, allowed }: Tree, paths: readonly string[]): Promise<(FilePlace | undefined)[]> {
  if (allowed !== undefined) await allowedFor(root, root, allowed);
  const places: (FilePlace | undefined)[] = [];
  const found = mapConcurrently(paths, maxConcurrentCalls, (path) => fileBehind(join(root, path), '', allowed));
  for await (const file of found) places.push('path' in file ? { path: file.path, below: file.below } : undefined);
  return places;
}

/**
 * With restricted directories: the tree's path with links resolved, and the allowed directory (the administrator's)
 * that contains it; below that the engine follows no link. Blocks like `listTree`.
 */
export async function baseOf({ root, allowed = ['/'] }: Tree): Promise<OriginBase & { path: string; below: string }> {
  await allowedFor(root, root, allowed);
  try {
    const real = await realpath(root);
    return { path: real, below: await allowedFor(real, root, allowed) };
  } catch (error) {
    throw rootError(error, root);
  }
}

interface Walk {
  root: string;
  allowed: Tree['allowed'];
  links: LeavingLinks;
  unusable: UnusableNames;
  moved(): void;
  /** Folders to enter. */
  branches: Branch[];
}

/** The tree itself, or a folder outside the tree reached by a link. */
interface Branch {
  /** Prefix of the branch's paths in the tree: '', or the link's path ending in '/'. */
  prefix: string;
  root: string;
  /** The branch's real path, when reads must stay inside. */
  realRoot: string | undefined;
  /** Real folders that contain the links passed on the way here. */
  trail: readonly string[];
}

async function* rowsOf(walk: Walk): AsyncGenerator<ManifestRow> {
  for (let branch = walk.branches.shift(); branch !== undefined; branch = walk.branches.shift()) {
    const { prefix, root } = branch;
    const within = branch;
    const unusable = { add: (name: string, why: string) => walk.unusable.add(prefix + name, why) };
    let isEmpty = true;
    const names = walkFolders(root, unusable);
    for await (const row of mapConcurrently(names, maxConcurrentCalls, (name) => rowOf(walk, within, name))) {
      walk.moved();
      isEmpty = false;
      if (row !== undefined) yield row;
    }
    if (isEmpty && prefix !== '') yield { path: prefix.slice(0, -1), kind: 'directory', size: 0n };
  }
}

async function rowOf(walk: Walk, branch: Branch, { path: name, kind }: FoundName): Promise<ManifestRow | undefined> {
  const { root, unusable } = walk;
  const { realRoot } = branch;
  const path = branch.prefix + name;
  if (kind === 'emptyFolder') return { path, kind: 'directory', size: 0n };
  const full = join(branch.root, name);
  try {
    // With restricted directories, an author of files in the tree must not lead reads out of it.
    const stats = realRoot === undefined ? await lstat(full, { bigint: true }) : await statBelow(realRoot, name);
    if (stats.isSymbolicLink()) return await linkRow(walk, branch, { full, name, path }, stats);
    if (stats.isFile()) return await fileRow(full, path, stats);
    if (stats.isDirectory())
      throw new HearthError(
        'OriginChanged',
        `${path} became a directory while it was listed; list it again when nothing writes to it`,
      );
    unusable.add(path, `a ${specialKind(stats)}, which has no content to cache`);
    return undefined;
  } catch (error) {
    throw error instanceof HearthError ? error.within(root) : nameError(error, path).within(root);
  }
}

/** The root's path with links resolved, where reads must stay inside. */
async function checkRoot(root: string, allowed: Tree['allowed']): Promise<string | undefined> {
  // Checked before any access, so that no caller learns what exists outside allowed directories.
  if (allowed !== undefined) await allowedFor(root, root, allowed);
  try {
    if (!(await stat(root)).isDirectory()) {
      throw new HearthError('InvalidArgument', `${root} is not a directory; use the directory that contains it`);
    }
    if (allowed === undefined) return undefined;
    const real = await realpath(root);
    await allowedFor(real, root, allowed);
    return real;
  } catch (error) {
    throw rootError(error, root);
  }
}

/** The allowed directory that contains a path; throws `PermissionDenied` when there is none. */
async function allowedFor(path: string, root: string, allowed: readonly string[]): Promise<string> {
  const above = await allowedAbove(path, allowed);
  if (above !== undefined) return above;
  const list = allowed.length === 0 ? 'none is' : `these are: ${allowed.join(', ')}`;
  throw new HearthError(
    'PermissionDenied',
    `directory origins must lie below an allowed directory (${list}), and ${root}, with symbolic links resolved, does not; add its directory to origins.directoryPrefixes of the agents (spec.origins.directoryPrefixes of the StorageCluster)`,
  );
}

async function fileRow(full: string, path: string, stats: BigIntStats): Promise<ManifestRow> {
  // World-readable files need no check; others are opened, because ACLs and capabilities may also grant reads.
  if ((stats.mode & 0o004n) === 0n) await (await open(full, constants.O_RDONLY | constants.O_NOFOLLOW)).close();
  return {
    path,
    kind: 'file',
    size: stats.size,
    contentKey: directoryKey(full, stats.mtimeNs, stats.ctimeNs, stats.size),
    validator: statValidator(stats),
    executable: (stats.mode & 0o111n) !== 0n,
    modifiedAtNs: stats.mtimeNs,
  };
}

/** With the fields by which the engine explains another time of change. */
export function statValidator({ mtimeNs, ctimeNs, ino, nlink, mode, uid, gid }: BigIntStats): string {
  return ['stat', mtimeNs, ctimeNs, ino, nlink, mode & 0o7777n, uid, gid].join(':');
}

/** `name`: path in the branch; `path`: path in the tree. */
async function linkRow(
  { allowed, links, unusable, branches }: Walk,
  { trail }: Branch,
  { full, name, path }: { full: string; name: string; path: string },
  stats: BigIntStats,
): Promise<ManifestRow | undefined> {
  const target = await readlink(full, 'buffer');
  const symlinkTarget = target.toString();
  const isText = Buffer.from(symlinkTarget).equals(target);
  if (!isText || leavesTree(name, symlinkTarget)) {
    let behind = await fileBehind(full, symlinkTarget, allowed);
    if ('path' in behind) {
      links.follow();
      return await fileRow(behind.path, path, behind.stats);
    }
    if ('folder' in behind) {
      const { folder } = behind;
      const passed = [...trail, await realpath(dirname(full))];
      const refused = refuseFolder(behind, passed);
      if (refused === undefined) {
        links.followFolder(path);
        branches.push({ prefix: `${path}/`, root: folder, realRoot: folder, trail: passed });
        return undefined;
      }
      behind = refused;
    }
    if (isText) links.keep(path, behind);
  }
  if (isText) return { path, kind: 'symlink', size: 0n, symlinkTarget, modifiedAtNs: stats.mtimeNs };
  unusable.add(path, 'its symbolic link points to a name that is not UTF-8');
  return undefined;
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
