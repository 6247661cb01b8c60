import { readFileSync } from 'node:fs';
import { HearthError } from '@hearth/common';

/** A clock that all processes of a machine share, that no one can set, and that counts while the machine sleeps. */
export interface BootClock {
  /** Milliseconds since the machine started. */
  now(): number;
  /** Changes with every start of the machine: times of two boots cannot be compared. */
  readonly bootId: string;
}

export interface BootClockFiles {
  readonly uptime: string;
  readonly bootId: string;
}

export const kernelClockFiles: BootClockFiles = { uptime: '/proc/uptime', bootId: '/proc/sys/kernel/random/boot_id' };

/**
 * CLOCK_BOOTTIME by way of /proc/uptime, whose first number it is (proc(5), fs/proc/uptime.c), with a precision of
 * 10 ms; a call takes about 6 us. Node offers CLOCK_MONOTONIC only, which stands still while the machine sleeps. All
 * processes that compare times must be in one time namespace (time_namespaces(7)); containers are unless asked
 * otherwise. The files are a parameter so that tests can make a boot of their own.
 */
export function openBootClock(files: BootClockFiles = kernelClockFiles): BootClock {
  const read = (path: string): string => {
    try {
      return readFileSync(path, 'utf8');
    } catch (error) {
      const cause = HearthError.from(error).message;
      throw new HearthError('Unsupported', `The store needs ${path} for its clock (${cause}). Mount /proc.`);
    }
  };
  const now = (): number => {
    const seconds = Number.parseFloat(read(files.uptime));
    if (!Number.isFinite(seconds)) {
      throw new HearthError('Unsupported', `${files.uptime} does not begin with a number of seconds. Mount /proc.`);
    }
    return Math.round(seconds * 1000);
  };
  now();
  const bootId = read(files.bootId).trim();
  if (bootId === '') throw new HearthError('Unsupported', `${files.bootId} is empty. Mount /proc.`);
  return { now, bootId };
}
