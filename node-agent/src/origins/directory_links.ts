import type { BigIntStats } from 'node:fs';
import { realpath } from 'node:fs/promises';
import { dirname, isAbsolute, normalize, resolve } from 'node:path';
import { HearthError } from '@hearth/common';
import { statBelow } from './stat_below.ts';

/** A file behind a link. */
export interface LinkedFile {
  /** Absolute, without links. */
  path: string;
  /** The allowed directory that contains the file. */
  below: string;
  stats: BigIntStats;
}

/** A folder behind a link: absolute, without links, and allowed. */
export interface LinkedFolder {
  folder: string;
}

export interface NotFollowed {
  why: string;
  /** True when a setting could allow the target. */
  isForbidden: boolean;
}

/**
 * True when a link at `path` in the tree leads out of the tree as written, so that a copy of the tree lacks the target.
 */
export function leavesTree(path: string, target: string): boolean {
  return isAbsolute(target) || normalize(`${dirname(path)}/${target}`).split('/')[0] === '..';
}

/**
 * Maximum number of folder links on the way to a file, and in one listing: two folders that link to each other would
 * never end.
 */
const maxLinkDepth = 8;
const maxLinkedFolders = 10_000;

/**
 * Resolves a link at an absolute path to a file or folder below an allowed directory (`allowed` undefined: everywhere,
 * but no folders). Otherwise returns the reason for not following it, as the continuation of a sentence about the link.
 * The reason reveals nothing about a target that is not allowed, not even its existence, because the author of the link
 * may lack the right to know. `target`: the link's text.
 */
export async function fileBehind(
  path: string,
  target: string,
  allowed: readonly string[] | undefined,
): Promise<LinkedFile | LinkedFolder | NotFollowed> {
  try {
    const real = await realpath(path);
    const below = await allowedAbove(real, allowed);
    if (below === undefined) return notAllowed(path, target);
    const stats = await statBelow('/', real.slice(1));
    if (stats.isFile()) return { path: real, below, stats };
    if (stats.isDirectory()) return allowed === undefined ? unbounded : { folder: real };
    return { why: 'leads to no regular file', isForbidden: false };
  } catch (thrown) {
    if (thrown instanceof HearthError) throw thrown;
    if (allowed !== undefined) return notAllowed(path, target);
    const { code = '' } = thrown as NodeJS.ErrnoException;
    const known: Record<string, string> = { ENOENT: 'leads to nothing', ELOOP: 'leads in a circle' };
    return { why: known[code] ?? `cannot be followed (${code})`, isForbidden: false };
  }
}

/** Without limits on links, a link to "/etc" or a home directory would put all of it into a dataset. */
const unbounded: NotFollowed = {
  why: 'leads to a folder, and agents follow such links only below origins.directoryPrefixes, which is not set',
  isForbidden: true,
};

/**
 * The reason for not entering a linked folder, or undefined. `trail`: the real folders that contain the links passed so
 * far, the current one last. Entering an ancestor again would never end.
 */
export function refuseFolder({ folder }: LinkedFolder, trail: readonly string[]): NotFollowed | undefined {
  if (trail.some((passed) => isBelow(passed, folder))) return { why: 'leads in a circle', isForbidden: false };
  if (trail.length <= maxLinkDepth) return undefined;
  return { why: `leads to a folder behind more than ${maxLinkDepth} other links`, isForbidden: false };
}

function notAllowed(path: string, target: string): NotFollowed {
  const written = resolve(dirname(path), target);
  const why =
    `leads to ${written}, which does not exist or is not below an allowed directory; use a folder that contains both, or add ` +
    `${dirname(written)} to origins.directoryPrefixes of the agents (spec.origins.directoryPrefixes of the StorageCluster)`;
  return { why, isForbidden: true };
}

/** The allowed directory that contains a path; undefined when there is none. */
export async function allowedAbove(path: string, allowed: readonly string[] = ['/']): Promise<string | undefined> {
  // The path of an allowed directory may itself contain links.
  const resolved = allowed.map((prefix) => realpath(prefix).catch(() => prefix));
  return [...allowed.map((one) => resolve(one)), ...(await Promise.all(resolved))].find((prefix) =>
    isBelow(path, prefix),
  );
}

function isBelow(path: string, prefix: string): boolean {
  return prefix === '/' || path === prefix || path.startsWith(`${prefix}/`);
}

/** Links found in one listing that lead out of the tree. */
export class LeavingLinks {
  readonly #root: string;
  #followed = false;
  #folders = 0;
  #kept = 0;
  #first = '';
  #isForbidden = false;

  constructor(root: string) {
    this.#root = root;
  }

  follow(): void {
    this.#followed = true;
  }

  /** Throws `InvalidArgument` above the limit of folder links. */
  followFolder(path: string): void {
    this.#followed = true;
    if (++this.#folders <= maxLinkedFolders) return;
    throw new HearthError(
      'InvalidArgument',
      `${this.#root} has more than ${maxLinkedFolders} symbolic links to folders outside of it (${path} is one more); make datasets of the folders themselves`,
    );
  }

  keep(path: string, { why, isForbidden }: NotFollowed): void {
    // Prefers links that a setting can allow, because the user can act on them.
    if (this.#kept++ > 0 && (this.#isForbidden || !isForbidden)) return;
    this.#first = `${path} ${why}`;
    this.#isForbidden = isForbidden;
  }

  /** True when links were followed, so that files of the listing lie outside the tree. */
  get followed(): boolean {
    return this.#followed;
  }

  /** Warnings for people. Throws an error with the first link when the listing has no files. */
  finish(hasFiles: boolean): string[] {
    if (this.#kept === 0) return [];
    if (!hasFiles) {
      throw new HearthError(
        this.#isForbidden ? 'PermissionDenied' : 'NotFound',
        `${this.#root} has only files behind symbolic links that agents do not follow: ${this.#first}`,
      );
    }
    return [
      `Links: ${this.#kept} symbolic links lead out of the directory and stay links that pods cannot follow; the first, ${this.#first}`,
    ];
  }
}
