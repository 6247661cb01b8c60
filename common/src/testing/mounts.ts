import { readFileSync } from 'node:fs';
import { run } from './command.ts';

/**
 * Mount points below a folder, most recent first, from the kernel's mount table, which is readable even when mounts
 * hang.
 */
export function mountPointsBelow(folder: string): string[] {
  const points = readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .map((line) => (line.split(' ')[4] ?? '').replace(/\\([0-7]{3})/g, (_, octal) => characterOf(octal)));
  return points.filter((point) => point.startsWith(`${folder}/`)).reverse();
}

/** Lazily unmounts everything below a folder; the serving process may be gone. */
export async function detachBelow(folder: string): Promise<void> {
  for (const point of mountPointsBelow(folder)) await run('umount', ['--lazy', '--no-canonicalize', point]);
}

const characterOf = (octal: string): string => String.fromCharCode(Number.parseInt(octal, 8));
