import { type Clock, sleep } from '@hearth/common';
import { GetStatusResponse } from '@hearth/common/generated/hearth/v1/control.ts';

export interface StatusSource {
  status(): Promise<GetStatusResponse>;
  /** Calls the listener when records behind the status may have changed; returns a function that unsubscribes. */
  onChange(listener: () => void): () => void;
}

/**
 * Yields the status now and after changes, at most once in `intervalMs`; ends when the signal aborts. Looks again after
 * each quiet interval, because other agents tell nobody that their figures have changed.
 */
export async function* watchStatus(
  source: StatusSource,
  intervalMs: number,
  signal: AbortSignal,
  clock: Clock,
): AsyncGenerator<GetStatusResponse> {
  let wake = new AbortController();
  const off = source.onChange(() => wake.abort());
  let sent: Uint8Array | undefined;
  try {
    while (!signal.aborted) {
      // Changes during the reading of the status trigger the next message.
      wake = new AbortController();
      const status = await source.status();
      const bytes = comparable(status);
      if (sent === undefined || Buffer.compare(sent, bytes) !== 0) {
        yield status;
        await sleep(clock, intervalMs, signal);
      }
      sent = bytes;
      await sleep(clock, intervalMs, AbortSignal.any([signal, wake.signal]));
    }
  } finally {
    off();
  }
}

/** Elapsed time alone is no change. */
function comparable(status: GetStatusResponse): Uint8Array {
  const nodes = status.nodes.map((node) => ({ ...node, uptimeSeconds: 0n }));
  const jobs = status.jobs.map((job) => ({ ...job, secondsLeft: 0n }));
  const datasets = status.datasets.map((dataset) => ({ ...dataset, use: 0 }));
  return GetStatusResponse.encode({ ...status, nodes, jobs, datasets }).finish();
}
