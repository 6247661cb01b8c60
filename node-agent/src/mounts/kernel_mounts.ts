import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { type Clock, HearthError } from '@hearth/common';

const deadlineMs = 10_000;
const longestMessage = 2048;
/** kFuseType of native/holder/fuse_mount.h. */
const fuseType = 'fuse.hearth';

/**
 * True when the kernel has a mount at the path. Never touches the path itself, because a dead FUSE mount would hang.
 */
export async function isMounted(path: string): Promise<boolean> {
  return (await typesAt(path)).length > 0;
}

/** True when the visible mount at the path is a FUSE mount of Hearth, dead or alive. */
export async function isHearthFuse(path: string): Promise<boolean> {
  return (await typesAt(path)).at(-1) === fuseType;
}

/**
 * Unmounts a mount that neither agent nor holder knows. Throws `InUse` while something is open in it, unless `lazy`,
 * which detaches the mount from its folder. Returns within a deadline even if umount hangs.
 */
export async function unmountForeign(path: string, clock: Clock, { lazy = false } = {}): Promise<void> {
  const reason = await umount(clock, [...(lazy ? ['--lazy'] : []), '--no-canonicalize', '--internal-only', path]);
  if (reason === undefined) return;
  throw new HearthError(
    reason.includes('busy') ? 'InUse' : 'IoError',
    `cannot unmount a leftover mount at ${path} (${reason}); unmount it by hand`,
  );
}

/** Reason of the failure, if any. Does not wait for a killed program that the kernel holds. */
async function umount(clock: Clock, args: string[]): Promise<string | undefined> {
  const child = spawn('umount', args, { stdio: ['ignore', 'ignore', 'pipe'] });
  let text = '';
  child.stderr.setEncoding('utf8').on('data', (part: string) => {
    text = (text + part).slice(0, longestMessage);
  });
  return await new Promise((resolve) => {
    const cancel = clock.schedule(deadlineMs, () => {
      child.kill('SIGKILL');
      child.stderr.destroy();
      child.unref();
      resolve(`umount did not end within ${deadlineMs / 1000} s`);
    });
    child.once('error', ({ message }) => {
      cancel();
      resolve(message);
    });
    child.once('close', (code) => {
      cancel();
      resolve(code === 0 ? undefined : text.trim() || `it ended with ${code}`);
    });
  });
}

/** Types of the file systems mounted at a path, the visible one last. */
async function typesAt(path: string): Promise<string[]> {
  const table = await readFile('/proc/self/mountinfo', 'utf8');
  return table.split('\n').flatMap((line) => {
    const fields = line.split(' ');
    if (unescapeOctal(fields[4] ?? '') !== path) return [];
    return [fields[fields.indexOf('-', 6) + 1] ?? ''];
  });
}

/** mountinfo writes blanks, tabs, line feeds and backslashes as three octal digits (proc(5)). */
function unescapeOctal(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
}
