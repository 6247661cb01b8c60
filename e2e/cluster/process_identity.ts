import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** A process that stays the same one: process ids are given again, a pair of id and start time is not. */
export interface ProcessIdentity {
  pid: number;
  /** Clock ticks after boot; field 22 of /proc/PID/stat (proc(5)). */
  startTime: string;
}

export function identify(pid: number): ProcessIdentity | undefined {
  const fields = statFields(pid);
  const startTime = fields?.[19];
  return fields === undefined || startTime === undefined || fields[0] === 'Z' ? undefined : { pid, startTime };
}

export function isAlive(identity: ProcessIdentity): boolean {
  return identify(identity.pid)?.startTime === identity.startTime;
}

/** Sends SIGKILL unless it has ended already, and waits until it is gone. */
export async function killProcess(identity: ProcessIdentity, limitMs = 300_000): Promise<void> {
  if (!isAlive(identity)) return;
  try {
    process.kill(identity.pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
  const end = performance.now() + limitMs;
  while (isAlive(identity)) {
    if (performance.now() > end) {
      throw new Error(`process ${identity.pid} does not end within ${limitMs / 1000} s of SIGKILL`);
    }
    await sleep(20);
  }
}

export function childrenOf(parent: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => statFields(pid)?.[1] === String(parent));
}

/** The fields of /proc/PID/stat after the command's name, which may itself hold spaces and parentheses. */
function statFields(pid: number): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat
      .slice(stat.lastIndexOf(')') + 2)
      .trimEnd()
      .split(' ');
  } catch {
    return undefined;
  }
}
