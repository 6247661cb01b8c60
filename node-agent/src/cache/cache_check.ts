import { access, constants, mkdir, stat } from 'node:fs/promises';
import { HearthError } from '@hearth/common';
import type { CacheDirectoryOptions } from '@hearth/engine';
import {
  type AgentConfig,
  type CacheDirectory,
  type MeasuredDirectory,
  measureCacheDirectory,
} from '../config/index.ts';
import { sizeText } from './size_text.ts';

export type CacheCheckConfig = Pick<AgentConfig, 'cache' | 'kubelet'>;

/** Minimum size of a useful cache: four chunks. */
const minBytes = 16n << 20n;
/**
 * Percentage that must stay free on the kubelet's file system: below 15 the kubelet deletes images, below 10 it evicts
 * pods.
 */
const kubeletFreePercent = 20n;

/** What a check has found of the directories. */
export interface CheckedCache {
  /** All directories. The budget of one that cannot be measured is 0. */
  directories: CacheDirectoryOptions[];
  /** Directories that cannot be used now; at least one other can. */
  failures: DirectoryFailure[];
}

export interface DirectoryFailure {
  path: string;
  reason: string;
}

/** Checks cache directories as far as possible without an engine. */
export class CacheCheck {
  readonly #config: CacheCheckConfig;

  constructor(config: CacheCheckConfig) {
    this.#config = config;
  }

  /** Creates missing directories. Throws `PermissionDenied` when none can be used. */
  async prepare(): Promise<void> {
    const failures = await this.#failuresOf(({ path }) => make(path));
    this.#throwIfNone(failures);
  }

  /**
   * All directories with their sizes in bytes. When none can be used it throws `PermissionDenied` or `IoError` of one
   * that cannot be created or written. Throws `OutOfSpace` for too small ones, and `InvalidArgument` for budgets that
   * take the kubelet's room.
   */
  async run(): Promise<CheckedCache> {
    const { cache, kubelet } = this.#config;
    const measured = new Map<string, MeasuredDirectory>();
    const failures = await this.#failuresOf(async (directory) => {
      measured.set(directory.path, await measureCacheDirectory(directory));
      await checkWritable(directory.path);
    });
    this.#throwIfNone(failures);
    const kubeletDevice = kubelet.directory === undefined ? undefined : await deviceOf(kubelet.directory);
    for (const directory of measured.values()) {
      if (failures.has(directory.path)) continue;
      checkSize(directory);
      if (directory.device === kubeletDevice) checkKubeletsRoom(directory);
    }
    return {
      directories: cache.directories.map(({ path }) => {
        const { budgetBytes, freeFloorBytes } = measured.get(path) ?? { budgetBytes: 0n, freeFloorBytes: 0n };
        return { path, budgetBytes, freeFloorBytes };
      }),
      failures: [...failures].map(([path, { message }]) => ({ path, reason: message })),
    };
  }

  async #failuresOf(work: (directory: CacheDirectory) => Promise<void>): Promise<Map<string, HearthError>> {
    const failures = new Map<string, HearthError>();
    for (const directory of this.#config.cache.directories) {
      await work(directory).catch((thrown) => failures.set(directory.path, HearthError.from(thrown)));
    }
    return failures;
  }

  #throwIfNone(failures: ReadonlyMap<string, HearthError>): void {
    const [first] = failures.values();
    if (first !== undefined && failures.size === this.#config.cache.directories.length) throw first;
  }
}

async function make(path: string): Promise<void> {
  try {
    await mkdir(path, { recursive: true, mode: 0o755 });
  } catch (thrown) {
    throw new HearthError(
      'PermissionDenied',
      `the directory ${path} of the cache cannot be created (${(thrown as Error).message}); create it or set cache.directories`,
    );
  }
}

async function checkWritable(path: string): Promise<void> {
  try {
    await access(path, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (thrown) {
    const { code, message } = thrown as NodeJS.ErrnoException;
    if (code === 'EROFS') {
      throw new HearthError(
        'IoError',
        `cache directory ${path} is on a file system that is read-only; repair the disk and mount it writable, or use another directory`,
      );
    }
    throw new HearthError(
      'PermissionDenied',
      `cache directory ${path} cannot be used (${message}); check its permissions and those of its parents`,
    );
  }
}

function checkSize({ path, budgetBytes, freeFloorBytes, fileSystemBytes }: MeasuredDirectory): void {
  if (budgetBytes < minBytes) {
    throw new HearthError(
      'OutOfSpace',
      `cache directory ${path} is too small: its budget is ${sizeText(budgetBytes)}; give it at least ${sizeText(minBytes)}`,
    );
  }
  if (fileSystemBytes - freeFloorBytes < minBytes) {
    throw new HearthError(
      'OutOfSpace',
      `cache directory ${path} is too small: its file system has ${sizeText(fileSystemBytes)}, of which ${sizeText(freeFloorBytes)} must stay free; use a larger disk or lower freeFloor`,
    );
  }
}

function checkKubeletsRoom({ path, freeFloorBytes, fileSystemBytes }: MeasuredDirectory): void {
  const needed = (fileSystemBytes * kubeletFreePercent) / 100n;
  if (freeFloorBytes >= needed) return;
  throw new HearthError(
    'InvalidArgument',
    `cache directory ${path} is on the file system of the kubelet, which deletes images and evicts pods when little of it is free, and freeFloor is only ${sizeText(freeFloorBytes)} of ${sizeText(fileSystemBytes)}; set freeFloor to ${kubeletFreePercent}%, or use another disk`,
  );
}

async function deviceOf(path: string): Promise<bigint> {
  try {
    return (await stat(path, { bigint: true })).dev;
  } catch (thrown) {
    throw new HearthError(
      'InvalidArgument',
      `cannot read kubelet.directory ${path} (${(thrown as Error).message}); name a folder on the kubelet's file system`,
    );
  }
}
