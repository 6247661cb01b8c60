import { createCipheriv, createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

export const MiB = 1024 * 1024;

/** Bytes that neither compress nor repeat, determined by the seed. */
export function bytesOf(seed: number, length: number): Buffer {
  const key = createHash('sha256').update(`sample ${seed}`).digest();
  return createCipheriv('aes-256-ctr', key, Buffer.alloc(16)).update(Buffer.alloc(length));
}

export const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** Writes files of the given sizes below `folder`; returns their digests by path. */
export function writeSample(folder: string, sizes: Record<string, number>): Map<string, string> {
  const digests = new Map<string, string>();
  let seed = 0;
  for (const [path, size] of Object.entries(sizes)) {
    const bytes = bytesOf(seed++, size);
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), bytes);
    digests.set(path, sha256(bytes));
  }
  return digests;
}
