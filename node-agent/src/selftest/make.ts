import { createHash } from 'node:crypto';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** Name of the list of digests in the format of `sha256sum --check`. */
export const sumsName = 'SHA256SUMS';

const patternBytes = 16 << 10;
const stampEvery = 4096;

/** Around sizes with special handling: pages, blocks of 64 KiB, chunks of 4 MiB. */
const sizes = [0, 1, 2, 511, 512, 513, 4095, 4096, 4097, 65_535, 65_536, 65_537].concat(
  [1, 4, 8].map((mebibytes) => mebibytes << 20),
  [(4 << 20) - 1, (4 << 20) + 1],
);

const oddNames = [
  ' leading blank',
  'trailing blank ',
  'two  blanks',
  '-dash',
  '.hidden',
  '..dots',
  '#hash?query=1&x',
  'percent%20encoded%2F',
  `'single' and "double"`,
  '$(command) `command` ;|&<>',
  '*[star]{a,b}',
  'ünïcödé',
  '日本語',
  '🙂',
  'n'.repeat(255),
];

const links: Readonly<Record<string, string>> = { 'links/4096': '../sizes/4096', 'links/folder': '../deep/a' };
const emptyFolder = 'empty';
const program = 'bin/hello';

/**
 * Writes the self-test files below a new folder: the same bytes, names and kinds everywhere, so that all agents have
 * one revision. They compress well, yet no two pages are equal.
 */
export async function makeSelfTest(folder: string): Promise<void> {
  const files = new Map<string, Buffer>();
  for (const size of sizes) files.set(`sizes/${size}`, contentOf(`sizes/${size}`, size));
  for (let index = 0; index < 32; index++) {
    const path = `many/${String(index).padStart(2, '0')}`;
    files.set(path, contentOf(path, index * 97));
  }
  for (const name of oddNames) files.set(`odd names/${name}`, contentOf(name, name.length));
  const deep = 'deep/a/b/c/d/e/f/g/h/leaf';
  files.set(deep, contentOf(deep, 100));
  files.set(program, Buffer.from('#!/bin/sh\necho "Hearth says hello"\n'));
  for (const [path, content] of files) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), content, { mode: path === program ? 0o755 : 0o644 });
  }
  await mkdir(join(folder, emptyFolder), { recursive: true });
  for (const [path, target] of Object.entries(links)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await symlink(target, join(folder, path));
  }
  const sums = [...files].sort(([a], [b]) => (a < b ? -1 : 1));
  const lines = sums.map(([path, content]) => `${createHash('sha256').update(content).digest('hex')}  ${path}\n`);
  await writeFile(join(folder, sumsName), lines.join(''));
}

/** A repeated pattern derived from the name, with the offset written over the start of each page. */
function contentOf(name: string, size: number): Buffer {
  const pattern = Buffer.alloc(patternBytes);
  for (let at = 0, count = 0; at < patternBytes; at += 32, count++) {
    createHash('sha256').update(`${count} ${name}`).digest().copy(pattern, at);
  }
  const content = Buffer.alloc(size);
  for (let at = 0; at < size; at += patternBytes) pattern.copy(content, at, 0, Math.min(patternBytes, size - at));
  for (let at = stampEvery; at + 8 <= size; at += stampEvery) content.writeBigUInt64BE(BigInt(at), at);
  return content;
}
