import { stat, statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { HearthError } from '@hearth/common';
import type { CacheDirectoryOptions } from '@hearth/engine';
import { type Amount, formatAmount, parseAmount, resolveAmount } from './quantity.ts';

/** A configured cache directory; shares are relative to the size of its file system. */
export interface CacheDirectory {
  path: string;
  budget: Amount;
  freeFloor: Amount;
}

export const defaultBudget = '70%';
export const defaultFreeFloor = '20%';

/** Parses `PATH`, `PATH=BUDGET`, `PATH=BUDGET:FREEFLOOR`, or a mapping with path, budget and freeFloor. */
export function parseCacheDirectory(value: unknown): CacheDirectory | undefined {
  if (typeof value === 'string') {
    const at = value.lastIndexOf('=');
    if (at < 0) return fromParts(value, undefined, undefined);
    const [budget, freeFloor, ...more] = value.slice(at + 1).split(':');
    return more.length > 0 ? undefined : fromParts(value.slice(0, at), budget, freeFloor);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const { path, budget, freeFloor, ...unknown } = value as Record<string, unknown>;
  return Object.keys(unknown).length > 0 ? undefined : fromParts(path, budget, freeFloor);
}

function fromParts(path: unknown, budgetText: unknown, floorText: unknown): CacheDirectory | undefined {
  const budget = parseAmount(budgetText ?? defaultBudget);
  const freeFloor = parseAmount(floorText ?? defaultFreeFloor);
  if (typeof path !== 'string' || !path.startsWith('/') || budget === undefined || freeFloor === undefined) {
    return undefined;
  }
  return { path, budget, freeFloor };
}

export function formatCacheDirectory(directory: CacheDirectory): Record<string, string> {
  return {
    path: directory.path,
    budget: formatAmount(directory.budget),
    freeFloor: formatAmount(directory.freeFloor),
  };
}

/** A cache directory and its current or future file system. */
export interface MeasuredDirectory extends CacheDirectoryOptions {
  /** Size of the file system in bytes. */
  fileSystemBytes: bigint;
  /** Equal for directories on one file system. */
  device: bigint;
}

/** Resolves budgets and floors to bytes. */
export async function measureCacheDirectories(directories: readonly CacheDirectory[]): Promise<MeasuredDirectory[]> {
  return await Promise.all(directories.map(measureCacheDirectory));
}

/** Throws `IoError` when the file system does not answer. */
export async function measureCacheDirectory({ path, budget, freeFloor }: CacheDirectory): Promise<MeasuredDirectory> {
  const { fileSystemBytes, device } = await fileSystemOf(path);
  return {
    path,
    budgetBytes: resolveAmount(budget, fileSystemBytes),
    freeFloorBytes: resolveAmount(freeFloor, fileSystemBytes),
    fileSystemBytes,
    device,
  };
}

/** The file system of the path or of its nearest existing parent. */
async function fileSystemOf(path: string): Promise<Pick<MeasuredDirectory, 'fileSystemBytes' | 'device'>> {
  for (let existing = path; ; existing = dirname(existing)) {
    try {
      const [system, place] = await Promise.all([statfs(existing, { bigint: true }), stat(existing, { bigint: true })]);
      return { fileSystemBytes: system.blocks * system.bsize, device: place.dev };
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code === 'ENOENT' && existing !== '/') continue;
      throw new HearthError(
        'IoError',
        `the size of the file system of cache directory ${path} cannot be read (${(thrown as Error).message}); check the path's permissions`,
      );
    }
  }
}
