import { createHash } from 'node:crypto';
import { createReadStream, statSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { pipeline } from 'node:stream/promises';

/** Writes SHA256SUMS, as `sha256sum --check` reads it, of files below a folder, and prints their sizes. */
export async function writeChecksums(folder: string, files: string[]): Promise<void> {
  const lines: string[] = [];
  for (const file of files) {
    const hash = createHash('sha256');
    await pipeline(createReadStream(file), hash);
    lines.push(`${hash.digest('hex')}  ${relative(folder, file)}\n`);
    console.log(`${file}: ${(statSync(file).size / 2 ** 20).toFixed(1)} MiB`);
  }
  writeFileSync(join(folder, 'SHA256SUMS'), lines.join(''));
}
