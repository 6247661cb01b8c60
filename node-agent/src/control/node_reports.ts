import { type Clock, sleep } from '@hearth/common';
import type { NodeReport, WatchNodeRequest } from '@hearth/common/generated/hearth/v1/control.ts';
import { unlessAborted } from '../records/index.ts';
import type { ReportHistory } from '../statistics/index.ts';

const defaultIntervalMs = 2_000;
const minIntervalMs = 100;

/**
 * Yields the parts of a report of everything that the caller does not know, then of changes, at most one report in an
 * interval; ends when the signal aborts. A slow caller gets fewer reports, not older ones.
 */
export async function* watchNode(
  history: ReportHistory,
  { intervalMs, known, once, datasets }: WatchNodeRequest,
  signal: AbortSignal,
  clock: Clock,
): AsyncGenerator<NodeReport> {
  const pauseMs = Math.max(minIntervalMs, intervalMs || defaultIntervalMs);
  const only = datasets.length === 0 ? undefined : new Set(datasets);
  let wake = Promise.withResolvers<void>();
  const off = history.onChange(() => wake.resolve());
  let mark = known;
  let sent = 0;
  try {
    while (!signal.aborted) {
      wake = Promise.withResolvers<void>();
      if (history.sequence > sent) {
        const parts = history.since(mark, only);
        sent = history.sequence;
        mark = parts[0]?.mark;
        yield* parts;
        if (once) return;
        await sleep(clock, pauseMs, signal);
      }
      if (history.sequence === sent) await unlessAborted(wake.promise, signal);
    }
  } finally {
    off();
  }
}
