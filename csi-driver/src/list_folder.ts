import { readdir } from 'node:fs/promises';

/** The names in a directory; none for a missing one, or a file. */
export async function listFolder(path: string): Promise<string[]> {
  try {
    return await readdir(path);
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return [];
    throw thrown;
  }
}
