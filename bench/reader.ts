import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { root, run } from './command.ts';

const program = join(root, 'build/release/bench/hearth_bench_reader');
const gib = 2 ** 30;

/** Forgets the page cache of the whole machine: of files, of FUSE mounts and of their backing files. */
export async function dropPageCache(): Promise<void> {
  await run('sync', []);
  writeFileSync('/proc/sys/vm/drop_caches', '1');
}

/** Forgets the names that the kernel knows, of the whole machine. */
export function dropNames(): void {
  writeFileSync('/proc/sys/vm/drop_caches', '2');
}

/** Bytes of all files below a folder that are in the page cache. */
export async function cachedBytes(folder: string): Promise<number> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((each) => each.isFile());
  const paths = files.map((file) => join(file.parentPath, file.name));
  const lines = await run('fincore', ['--noheadings', '--raw', '--bytes', '--output', 'RES', ...paths]);
  return lines.split('\n').reduce((sum, line) => sum + Number(line), 0);
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

/** GiB/s of files that a process has open before `between`, which may stop what serves the opens. */
export async function readOpened(files: string[], between: () => Promise<void>): Promise<number> {
  const reader = spawn(program, ['opened', ...files], { stdio: ['pipe', 'pipe', 'inherit'] });
  const ended = once(reader, 'close');
  const lines = createInterface(reader.stdout)[Symbol.asyncIterator]();
  try {
    if ((await lines.next()).value !== 'opened') throw new Error('hearth_bench_reader could not open its files');
    await between();
    reader.stdin.end('\n');
    const [bytes, seconds] = String((await lines.next()).value)
      .split(' ')
      .map(Number);
    if (!bytes || !seconds) throw new Error('hearth_bench_reader read nothing of its open files');
    return bytes / gib / seconds;
  } finally {
    reader.kill();
    await ended;
  }
}

/** By several readers at once, each of which takes the next file. */
export function readParallel(readers: number, files: string[]): Promise<{ bytes: number; seconds: number }> {
  return read(['parallel', String(readers), ...files]);
}

/** GiB/s of one file past the page cache, by so many readers of 4 MiB at a time. */
export async function readDirect(readers: number, file: string): Promise<number> {
  const { bytes, seconds } = await read(['direct', String(readers), file]);
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

/** Thousands of files a second, of all below a folder, in an order of its own for each seed. */
export async function readShuffled(folder: string, files: number, seed: number): Promise<number> {
  const { seconds } = await read(['shuffled', String(seed), folder]);
  return files / seconds / 1000;
}
