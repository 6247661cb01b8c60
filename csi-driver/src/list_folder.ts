import { readdir } from 'node:fs/promises';

/** Names in a folder; none when it is not there, or is no folder. */
export async function listFolder(path: string): Promise<string[]> {
  try {
    return await readdir(path);
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return [];
    throw thrown;
  }
}
