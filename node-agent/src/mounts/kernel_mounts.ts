import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { HearthError } from '@hearth/common';

const deadlineMs = 10_000;

/** Whether the kernel has a mount at the path. Never touches the path itself: that of a dead FUSE mount would hang. */
export async function isMounted(path: string): Promise<boolean> {
  const table = await readFile('/proc/self/mountinfo', 'utf8');
  return table.split('\n').some((line) => unescapeOctal(line.split(' ')[4] ?? '') === path);
}

/** Takes a mount away that no process of ours knows any more. `InUse` while something is open in it. */
export async function unmountForeign(path: string): Promise<void> {
  try {
    await promisify(execFile)('umount', ['--no-canonicalize', path], { timeout: deadlineMs, killSignal: 'SIGKILL' });
  } catch (thrown) {
    const { stderr = '', message } = thrown as Error & { stderr?: string };
    const reason = stderr.trim() || message;
    throw new HearthError(
      reason.includes('busy') ? 'InUse' : 'IoError',
      `the mount that was left at ${path} cannot be taken away (${reason}); unmount it by hand`,
    );
  }
}

/** mountinfo writes blanks, tabs, line feeds and backslashes as three octal digits (proc(5)). */
function unescapeOctal(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
}
