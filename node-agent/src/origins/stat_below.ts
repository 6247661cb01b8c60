import { type BigIntStats, constants } from 'node:fs';
import { open, readlink } from 'node:fs/promises';
import { HearthError } from '@hearth/common';

/** O_PATH of open(2): a descriptor of the name without opening the file. Node defines no constant. */
const pathOnly = 0o10000000;

/**
 * Like lstat for `path` below `root`, refusing links on the way. The kernel reports where the opened name lies, so a
 * folder replaced by a link meanwhile leads nowhere. `root`: absolute and real. Throws lstat's errors unchanged.
 */
export async function statBelow(root: string, path: string): Promise<BigIntStats> {
  const full = `${root === '/' ? '' : root}/${path}`;
  const file = await open(full, pathOnly | constants.O_NOFOLLOW);
  try {
    const real = await readlink(`/proc/self/fd/${file.fd}`, 'buffer');
    if (real.equals(Buffer.from(full))) return await file.stat({ bigint: true });
  } finally {
    await file.close();
  }
  throw new HearthError(
    'OriginChanged',
    `${path} is not where it was listed: a folder above it was replaced or renamed; list it again when nothing writes to it`,
  );
}
