import { setTimeout as sleep } from 'node:timers/promises';
import type { Reader } from './readers.ts';
import type { Stage } from './stage.ts';

/** The longest that one read may take, with everything that goes wrong meanwhile. */
export const longestWaitMs = 120_000;
const everyMs = 1_000;

/**
 * Looks at readers, agents and holders until the signal aborts, or something is wrong that ends a run: a read that takes
 * too long, a process that ends by itself. Gives what that is.
 */
export async function watchProcesses(stage: Stage, readers: readonly Reader[], signal: AbortSignal): Promise<string[]> {
  while (!signal.aborted) {
    const wrong = wrongNow(stage, readers);
    if (wrong.length > 0) return wrong;
    await sleep(everyMs, undefined, { signal }).catch(() => undefined);
  }
  return [];
}

function wrongNow(stage: Stage, readers: readonly Reader[]): string[] {
  const waiting = readers.filter((reader) => reader.longestWaitMs > longestWaitMs);
  const failed = readers.filter(({ failure }) => failure !== undefined);
  return [
    ...stage.endedByThemselves(),
    ...failed.map(({ name, failure }) => `reader ${name}: ${failure}`),
    ...waiting.map(({ name, longestWaitMs: ms }) => `reader ${name} waited for ${Math.round(ms / 1000)} s`),
  ];
}
