import { existsSync } from 'node:fs';
import type { Context } from 'mocha';
import { ToolUnavailable } from './tool.ts';

/** Skips the test or the suite, with the reason. */
export function skip(context: Context, reason: string): never {
  console.log(`      skipped: ${reason}`);
  context.skip();
  throw new Error('unreachable');
}

/** Skips the test or the suite, with the reason, where bind mounts are not permitted. */
export function needsRoot(context: Context): void {
  if (process.getuid?.() !== 0) skip(context, 'mounts need root');
}

/** Skips the test or the suite, with the reason, where FUSE mounts are not permitted. */
export function needsMounts(context: Context): void {
  needsRoot(context);
  if (!existsSync('/dev/fuse')) skip(context, 'mounts need /dev/fuse; load the module fuse');
}

/**
 * For a suite's hook: like `unlessUnavailable`, with time for the first run on a machine, which builds programs for
 * minutes.
 */
export async function needsPrograms<T>(context: Context, start: () => Promise<T>): Promise<T> {
  context.timeout(30 * 60_000);
  return await unlessUnavailable(context, start);
}

/** The result of `start`; skips the test or the suite, with the reason, where its programs cannot be built. */
export async function unlessUnavailable<T>(context: Context, start: () => Promise<T>): Promise<T> {
  try {
    return await start();
  } catch (error) {
    if (error instanceof ToolUnavailable) skip(context, error.message);
    throw error;
  }
}
