import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const holderProgram = join(import.meta.dirname, '../../../build/release/holder/hearth-holder');
const timeoutMs = 60_000;

/** Why no FUSE mount can be made here; undefined when one can. */
export function missingForMounts(): string | undefined {
  if (process.getuid?.() !== 0) return 'mounts need root';
  if (!existsSync(holderProgram)) return `${holderProgram} is not built; run \`make build\``;
  try {
    accessSync('/dev/fuse', constants.R_OK | constants.W_OK);
    return undefined;
  } catch (error) {
    return `mounts need /dev/fuse (${(error as NodeJS.ErrnoException).code}); load the module fuse`;
  }
}

/** Where a stage of life finds the holder and mounts. */
export const mountPaths = (folder: string) => ({
  holder: join(folder, 'holder.sock'),
  target: join(folder, 'mnt'),
});

/**
 * A mount holder, and a process that reads the file of the mount at `mountPaths(folder).target` as soon as another
 * process has made it. A process of its own: nothing can end one that waits for an answer of its own engine.
 */
export class MountedRead {
  readonly #target: string;
  readonly #holder: ChildProcess;
  #reader: ChildProcess | undefined;

  private constructor(holder: ChildProcess, target: string) {
    this.#holder = holder;
    this.#target = target;
  }

  static async start(folder: string): Promise<MountedRead> {
    const { holder, target } = mountPaths(folder);
    mkdirSync(target, { recursive: true });
    const child = spawn(holderProgram, ['--socket', holder], { stdio: 'ignore' });
    const mounted = new MountedRead(child, target);
    await until('the holder listens', () => existsSync(holder));
    return mounted;
  }

  /** Waits for the mount and starts the read. */
  async begin(): Promise<void> {
    await until('the mount is there', () => isMounted(this.#target));
    this.#reader = spawn('cat', [join(this.#target, 'file')], { stdio: 'ignore' });
  }

  /** The read has neither bytes nor an error yet. */
  get waits(): boolean {
    return this.#reader !== undefined && this.#reader.exitCode === null && this.#reader.signalCode === null;
  }

  /** Ends the holder; without an engine its mount goes, and with it the read. */
  async end(): Promise<void> {
    const ended = [this.#holder, this.#reader].filter((child) => child !== undefined).map(exitOf);
    this.#holder.kill('SIGTERM');
    const late = sleep(timeoutMs, 'late', { ref: false });
    if ((await Promise.race([Promise.all(ended), late])) === 'late') {
      this.#holder.kill('SIGKILL');
      this.#reader?.kill('SIGKILL');
      throw new Error('the holder and the reader of its mount do not end');
    }
    if (isMounted(this.#target)) throw new Error(`the holder left ${this.#target} mounted`);
  }
}

async function exitOf(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
}

function isMounted(target: string): boolean {
  return readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .some((line) => line.split(' ')[4] === target);
}

async function until(what: string, holds: () => boolean): Promise<void> {
  const deadline = Date.now() + timeoutMs;
  while (!holds()) {
    if (Date.now() > deadline) throw new Error(`in vain waited ${timeoutMs / 1000} s until ${what}`);
    await sleep(20);
  }
}
