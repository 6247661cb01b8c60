import type { BigIntStats } from 'node:fs';
import { realpath } from 'node:fs/promises';
import { dirname, isAbsolute, normalize, resolve } from 'node:path';
import { HearthError } from '@hearth/common';
import { statBelow } from './stat_below.ts';

/** A file behind a link. */
export interface LinkedFile {
  /** Absolute, without links. */
  path: string;
  /** The directory above it that is allowed. */
  below: string;
  stats: BigIntStats;
}

/** A folder behind a link: absolute, without links, and allowed. */
export interface LinkedFolder {
  folder: string;
}

export interface NotFollowed {
  why: string;
  /** It may be allowed. */
  isForbidden: boolean;
}

/**
 * True when a link of the tree, at `path` in it, leads out of the tree as it is written: a copy of the tree alone lacks
 * its target.
 */
export function leavesTree(path: string, target: string): boolean {
  return isAbsolute(target) || normalize(`${dirname(path)}/${target}`).split('/')[0] === '..';
}

/** Links to folders on the way to a file, and in one listing: without a bound, two folders that link to each other have no end. */
const mostDeep = 8;
const mostFolders = 10_000;

/**
 * The file or folder that a link of this absolute path leads to, if it lies below an allowed directory (`allowed` undefined:
 * everywhere, but not to folders); else why it is not followed, in words that go on from the link's name. Of what is not allowed nothing is said
 * but what the link says itself, not even whether it is there: whoever writes the link may be no one who may know. `target`:
 * the link's, as it is written.
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

/** A link to "/etc" or a home directory would make all of it part of a dataset where nothing says how far links may lead. */
const unbounded: NotFollowed = {
  why: 'leads to a folder, and such links are followed only below origins.directoryPrefixes of the agents, which are not set',
  isForbidden: true,
};

/**
 * Why a linked folder is not gone into; undefined when it is. `trail`: the real folders that the links on the way stand in,
 * the one that leads to it last. Who comes to it again by what is below it never arrives.
 */
export function refuseFolder({ folder }: LinkedFolder, trail: readonly string[]): NotFollowed | undefined {
  if (trail.some((passed) => isBelow(passed, folder))) return { why: 'leads in a circle', isForbidden: false };
  if (trail.length <= mostDeep) return undefined;
  return { why: `leads to a folder behind more than ${mostDeep} other links`, isForbidden: false };
}

function notAllowed(path: string, target: string): NotFollowed {
  const written = resolve(dirname(path), target);
  const why =
    `leads to ${written}, which is not there or not below an allowed directory; give a folder that holds both, or add ` +
    `${dirname(written)} to origins.directoryPrefixes of the agents (spec.origins.directoryPrefixes of the StorageCluster)`;
  return { why, isForbidden: true };
}

/** The allowed directory that a path lies in; undefined when there is none. */
export async function allowedAbove(path: string, allowed: readonly string[] = ['/']): Promise<string | undefined> {
  // One may itself be reached by a link.
  const resolved = allowed.map((prefix) => realpath(prefix).catch(() => prefix));
  return [...allowed.map((one) => resolve(one)), ...(await Promise.all(resolved))].find((prefix) =>
    isBelow(path, prefix),
  );
}

function isBelow(path: string, prefix: string): boolean {
  return prefix === '/' || path === prefix || path.startsWith(`${prefix}/`);
}

/** Links out of its tree that one listing has found. */
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

  /** `InvalidArgument` when there are too many. */
  followFolder(path: string): void {
    this.#followed = true;
    if (++this.#folders <= mostFolders) return;
    throw new HearthError(
      'InvalidArgument',
      `${this.#root} has more than ${mostFolders} symbolic links to folders outside of it (${path} is one more); give the folders themselves as datasets`,
    );
  }

  keep(path: string, { why, isForbidden }: NotFollowed): void {
    // A link that a setting can allow comes first: it has a next step.
    if (this.#kept++ > 0 && (this.#isForbidden || !isForbidden)) return;
    this.#first = `${path} ${why}`;
    this.#isForbidden = isForbidden;
  }

  /** Some were followed: files of the listing lie elsewhere. */
  get followed(): boolean {
    return this.#followed;
  }

  /** For people. An error that names the first of them where there is nothing else. */
  finish(hasFiles: boolean): string[] {
    if (this.#kept === 0) return [];
    if (!hasFiles) {
      throw new HearthError(
        this.#isForbidden ? 'PermissionDenied' : 'NotFound',
        `${this.#root} has no files but behind symbolic links, which are not followed: ${this.#first}`,
      );
    }
    return [
      `Links: ${this.#kept} symbolic links lead out of the directory and stay links, which pods cannot follow; the first, ${this.#first}`,
    ];
  }
}
