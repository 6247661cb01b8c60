import { readFileSync } from 'node:fs';
import { cpus, release, totalmem } from 'node:os';
import { run } from './command.ts';

export interface Machine {
  cores: number;
  memoryGiB: number;
  kernel: string;
  /** Type and options of the file system that holds the data. */
  fileSystem: string;
  disk: string;
  node: string;
}

/** Describes this machine and the disk below `directory`, which must be one: not memory, not the network. */
export async function describeMachine(directory: string): Promise<Machine> {
  const found = await run('findmnt', ['--noheadings', '--output', 'FSTYPE,SOURCE,OPTIONS', '--target', directory]);
  const [type = '', source = '', options = ''] = found.trim().split(/\s+/);
  if (type === 'tmpfs' || type === 'ramfs') {
    throw new Error(`${directory} is in memory (${type}); set BENCH_DIRECTORY to a folder on a disk`);
  }
  return {
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    fileSystem: `${type} (${options})`,
    disk: source,
    node: process.version,
  };
}

/** The processor's own name, for the table's heading. */
export function processor(): string {
  return /model name\s*: (.*)/.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1] ?? 'unknown processor';
}
