import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '@hearth/common/testing';

/** A control group's peak of memory, bytes, and the number of its processes ended for want of memory. */
export interface MemoryUse {
  /** Most of everything, page cache included. */
  peak: number;
  /** Now, without page cache. */
  anonymous: number;
  killed: number;
}

/** A control group with a limit of memory, as the kubelet makes one for a container. */
export class MemoryGroup {
  readonly #folder: string;
  readonly #unified: boolean;

  private constructor(folder: string, unified: boolean) {
    this.#folder = folder;
    this.#unified = unified;
  }

  /** Undefined where no hierarchy, of version 2 or 1, controls memory and may be changed. */
  static create(name: string, limit: bigint): MemoryGroup | undefined {
    const hierarchy = memoryHierarchy();
    if (hierarchy === undefined || process.getuid?.() !== 0) return undefined;
    const { folder: parent, unified } = hierarchy;
    const folder = join(parent, name);
    try {
      if (unified) writeFileSync(join(parent, 'cgroup.subtree_control'), '+memory');
      mkdirSync(folder);
      writeFileSync(join(folder, unified ? 'memory.max' : 'memory.limit_in_bytes'), String(limit));
    } catch {
      if (existsSync(folder)) rmdirSync(folder);
      return undefined;
    }
    return new MemoryGroup(folder, unified);
  }

  /** A program that runs the words after it in this group. */
  get launcher(): string[] {
    return ['sh', '-ec', 'echo $$ > "$0/cgroup.procs"; exec "$@"', this.#folder];
  }

  use(): MemoryUse {
    const field = (file: string, name: string) =>
      Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(this.#read(file))?.[1] ?? Number.NaN);
    return this.#unified
      ? {
          // Since Linux 5.19; before it, what is used now.
          peak: Number(this.#read(existsSync(join(this.#folder, 'memory.peak')) ? 'memory.peak' : 'memory.current')),
          anonymous: field('memory.stat', 'anon'),
          killed: field('memory.events', 'oom_kill'),
        }
      : {
          peak: Number(this.#read('memory.max_usage_in_bytes')),
          anonymous: field('memory.stat', 'rss'),
          killed: field('memory.oom_control', 'oom_kill'),
        };
  }

  /** Its processes must have ended, or be about to. */
  async remove(): Promise<void> {
    // The last process of a group is gone a moment before the group is empty.
    await until('the control group is empty', async () => this.#read('cgroup.procs').trim() === '');
    await until('the control group can be removed', async () => {
      try {
        rmdirSync(this.#folder);
        return true;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EBUSY') throw error;
        return false;
      }
    });
  }

  #read(file: string): string {
    return readFileSync(join(this.#folder, file), 'utf8');
  }
}

/** Where groups that control memory are made: the root of version 2, else of version 1. */
function memoryHierarchy(): { folder: string; unified: boolean } | undefined {
  const lines = readFileSync('/proc/self/mountinfo', 'utf8').split('\n');
  const pointOf = (line: string | undefined) => line?.split(' ')[4];
  const unified = pointOf(lines.find((line) => line.includes(' - cgroup2 ')));
  if (unified !== undefined) {
    const controllers = readFileSync(join(unified, 'cgroup.controllers'), 'utf8').trim().split(' ');
    if (controllers.includes('memory')) return { folder: unified, unified: true };
  }
  const first = pointOf(lines.find((line) => / - cgroup .*\bmemory\b/.test(line)));
  return first === undefined ? undefined : { folder: first, unified: false };
}
