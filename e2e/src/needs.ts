import { existsSync } from 'node:fs';
import type { Context } from 'mocha';

/** Skips the test or the suite, with the reason, when FUSE mounts cannot be made here. */
export function needsMounts(context: Context): void {
  if (process.getuid?.() !== 0) skip(context, 'mounts need root');
  if (!existsSync('/dev/fuse')) skip(context, 'mounts need /dev/fuse; load the module fuse');
}

export function skip(context: Context, reason: string): never {
  console.log(`      skipped: ${reason}`);
  context.skip();
  throw new Error('unreachable');
}
