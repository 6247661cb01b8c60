import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root, run } from './command.ts';

const program = join(root, 'build/release/bench/hearth_bench_reader');
const gib = 2 ** 30;

/** Forgets the page cache of the whole machine: of files, of FUSE mounts and of their backing files. */
export async function dropPageCache(): Promise<void> {
  await run('sync', []);
  writeFileSync('/proc/sys/vm/drop_caches', '1');
}

async function read(args: string[]): Promise<{ bytes: number; seconds: number }> {
  const [bytes, seconds] = (await run(program, args)).trim().split(' ').map(Number);
  if (!bytes || !seconds) throw new Error(`hearth_bench_reader ${args[0]} read nothing`);
  return { bytes, seconds };
}

/** GiB/s. */
export async function readFiles(mode: 'read' | 'mmap', files: string[]): Promise<number> {
  const { bytes, seconds } = await read([mode, ...files]);
  return bytes / gib / seconds;
}

/** Thousands of 4 KiB reads a second. */
export async function readRandom(file: string, count: number, seed: number): Promise<number> {
  const { seconds } = await read(['random', String(count), String(seed), file]);
  return count / seconds / 1000;
}

/** Thousands of files a second. */
export async function readFolder(folder: string, files: number): Promise<number> {
  const { seconds } = await read(['small', folder]);
  return files / seconds / 1000;
}
