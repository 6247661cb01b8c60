import { readdirSync, readFileSync } from 'node:fs';

/** Of USER_HZ, which is 100 on all architectures that we build for. */
const ticksPerSecond = 100;

interface Taken {
  name: string;
  seconds: number;
}

function taken(path: string): Taken {
  const stat = readFileSync(path, 'utf8');
  // The second field, its name in parentheses, may have spaces in it.
  const end = stat.lastIndexOf(')');
  const fields = stat.slice(end + 2).split(' ');
  return {
    name: stat.slice(stat.indexOf('(') + 1, end),
    seconds: (Number(fields[11]) + Number(fields[12])) / ticksPerSecond,
  };
}

/** User and system time of a process and all its threads, in seconds. */
export const processorSeconds = (pid: number): number => taken(`/proc/${pid}/stat`).seconds;

/** The same of each of its threads that have such a name, by names. */
export function threadSeconds(pid: number, name: RegExp): number[] {
  return readdirSync(`/proc/${pid}/task`)
    .map((thread) => taken(`/proc/${pid}/task/${thread}/stat`))
    .filter((thread) => name.test(thread.name))
    .sort((a, b) => a.name.localeCompare(b.name))
    .map(({ seconds }) => seconds);
}
