import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** Mount points of control group hierarchies, of version 1 and 2. */
export function hierarchies(): string[] {
  return readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .filter((line) => / - cgroup2? /.test(line))
    .map((line) => line.split(' ')[4] ?? '');
}

/** Makes a control group in every hierarchy of version 1, with all CPUs and memory nodes of its parent. */
export function createControlGroup(name: string): void {
  for (const hierarchy of hierarchies()) {
    const folder = join(hierarchy, name);
    mkdirSync(folder, { recursive: true });
    for (const file of ['cpuset.cpus', 'cpuset.mems']) {
      if (!existsSync(join(folder, file)) || !existsSync(join(hierarchy, file))) continue;
      writeFileSync(join(folder, file), readFileSync(join(hierarchy, file)));
    }
  }
}

/** Removes control groups of that name and all below, from every hierarchy. Nothing may run in them any more. */
export async function removeControlGroup(name: string): Promise<void> {
  for (const hierarchy of hierarchies()) {
    const folder = join(hierarchy, name);
    // The last process of a group is gone a moment before the group is empty.
    for (let attempt = 0; existsSync(folder); attempt++) {
      try {
        removeTree(folder);
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        if ((code !== 'EBUSY' && code !== 'ENOENT') || attempt === 100) throw error;
        await sleep(50);
      }
    }
  }
}

function removeTree(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.isDirectory()) removeTree(join(folder, entry.name));
  }
  rmdirSync(folder);
}
