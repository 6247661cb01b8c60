import { access, constants, mkdir, stat } from 'node:fs/promises';
import { HearthError } from '@hearth/common';
import { type AgentConfig, type MeasuredDirectory, measureCacheDirectories } from '../config/index.ts';
import { sizeText } from './size_text.ts';

export type CacheCheckConfig = Pick<AgentConfig, 'cache' | 'kubelet'>;

/** Minimum size of a useful cache: four chunks. */
const minBytes = 16n << 20n;
/**
 * Percentage that must stay free on the kubelet's file system: below 15 the kubelet deletes images, below 10 it evicts
 * pods.
 */
const kubeletFreePercent = 20n;

/** Checks cache directories as far as possible without an engine. */
export class CacheCheck {
  readonly #config: CacheCheckConfig;

  constructor(config: CacheCheckConfig) {
    this.#config = config;
  }

  /** Creates missing directories. */
  async prepare(): Promise<void> {
    for (const { path } of this.#config.cache.directories) await make(path);
  }

  /**
   * All directories with their sizes in bytes. Throws `PermissionDenied` or `IoError` for directories that cannot be
   * created or written, `OutOfSpace` for too small ones, `InvalidArgument` for budgets that take the kubelet's room.
   */
  async run(): Promise<MeasuredDirectory[]> {
    const { cache, kubelet } = this.#config;
    for (const { path } of cache.directories) await checkWritable(path);
    const measured = await measureCacheDirectories(cache.directories);
    const kubeletDevice = kubelet.directory === undefined ? undefined : await deviceOf(kubelet.directory);
    for (const directory of measured) {
      checkSize(directory);
      if (directory.device === kubeletDevice) checkKubeletsRoom(directory);
    }
    return measured;
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
