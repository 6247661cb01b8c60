import { randomUUID } from 'node:crypto';
import { open, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { HearthError } from '@hearth/common';

const name = 'installation';

/**
 * A permanent name of a cache directory, created on first use. The holder of the directory's lock (taken by the engine)
 * is the only living agent with this name, so a restarted agent can replace its predecessor in the cluster without
 * waiting for the lease to expire.
 */
export async function installationOf(cacheDirectory: string): Promise<string> {
  const path = join(cacheDirectory, name);
  try {
    const text = (await readFile(path, 'utf8')).trim();
    if (text !== '') return text;
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== 'ENOENT') throw unusable(path, thrown);
  }
  const made = randomUUID();
  try {
    const file = await open(`${path}.tmp`, 'w', 0o644);
    try {
      await file.writeFile(`${made}\n`);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(`${path}.tmp`, path);
    const folder = await open(cacheDirectory);
    await folder.sync().finally(() => folder.close());
  } catch (thrown) {
    throw unusable(path, thrown);
  }
  return made;
}

function unusable(path: string, thrown: unknown): HearthError {
  return new HearthError(
    'IoError',
    `${path} cannot be read or written (${(thrown as Error).message}); check the cache directory's permissions`,
  );
}
