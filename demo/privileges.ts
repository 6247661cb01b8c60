import { accessSync, constants, readFileSync } from 'node:fs';

/** linux/capability.h */
const capSysAdmin = 21n;

export interface MissingPrivilege {
  what: string;
  remedy: string;
}

/** Rights that this process lacks for mounts; the holder, our child, lacks the same. */
export function missingForMounts(): MissingPrivilege[] {
  const missing: MissingPrivilege[] = [];
  const effective = /^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0';
  if (((BigInt(`0x${effective}`) >> capSysAdmin) & 1n) === 0n) {
    missing.push({
      what: 'the right to mount (CAP_SYS_ADMIN)',
      remedy: 'run `make run` as root; in a container, start it with --cap-add SYS_ADMIN or --privileged',
    });
  }
  try {
    accessSync('/dev/fuse', constants.R_OK | constants.W_OK);
  } catch (error) {
    missing.push({
      what: `/dev/fuse (${(error as NodeJS.ErrnoException).code})`,
      remedy: '`modprobe fuse` as root; in a container, start it with --device /dev/fuse',
    });
  }
  return missing;
}
