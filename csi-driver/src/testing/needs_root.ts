import type { Context } from 'mocha';

/** Skips the test or suite, with the reason, when mounts cannot be made here. */
export function needsRoot(context: Context): void {
  if (process.getuid?.() === 0) return;
  console.log('      skipped: mounts need root');
  context.skip();
}
