import { mkdir, rmdir } from 'node:fs/promises';
import { HearthError } from '@hearth/common';

/** Creates the folder and its parents. */
export async function makeFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { recursive: true, mode: 0o755 });
  } catch (thrown) {
    throw new HearthError(
      'IoError',
      `the folder ${path} for volumes cannot be created (${(thrown as Error).message}); check volumes.directory`,
    );
  }
}

/** Removes the folder if it exists and is empty. */
export async function removeFolder(path: string): Promise<void> {
  await rmdir(path).catch((thrown: NodeJS.ErrnoException) => {
    if (thrown.code !== 'ENOENT' && thrown.code !== 'ENOTEMPTY')
      throw new HearthError('IoError', `${path} cannot be removed: ${thrown.message}`);
  });
}
