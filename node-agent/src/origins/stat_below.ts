import { type BigIntStats, constants } from 'node:fs';
import { open, readlink } from 'node:fs/promises';
import { HearthError } from '@hearth/common';

/** open(2) on Linux: a descriptor of the name itself, without opening the file. Node has no name for it. */
const pathOnly = 0o10000000;

/**
 * As lstat, of `path` below `root`, with no link on the way. What is looked at is what was opened, and where that is
 * the kernel says: a folder that is replaced by a link meanwhile leads nowhere. `root`: absolute and real.
 * Errors of lstat as they are.
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
