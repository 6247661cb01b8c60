import { type Clock, sleep } from '@hearth/common';
import { GetStatusResponse } from '@hearth/common/generated/hearth/v1/control.ts';
import { unlessAborted } from '../records/index.ts';

export interface StatusSource {
  status(): Promise<GetStatusResponse>;
  /** Calls the listener when the status may have changed; returns the function that ends it. */
  onChange(listener: () => void): () => void;
}

/** The status now and after each change, at most once in `intervalMs`; ends when the signal is aborted. */
export async function* watchStatus(
  source: StatusSource,
  intervalMs: number,
  signal: AbortSignal,
  clock: Clock,
): AsyncGenerator<GetStatusResponse> {
  let wake = Promise.withResolvers<void>();
  const off = source.onChange(() => wake.resolve());
  let sent: Uint8Array | undefined;
  try {
    while (!signal.aborted) {
      // Changes during the reading of the status come with the next message.
      wake = Promise.withResolvers<void>();
      const status = await source.status();
      const bytes = comparable(status);
      if (sent === undefined || Buffer.compare(sent, bytes) !== 0) yield status;
      sent = bytes;
      await sleep(clock, intervalMs, signal);
      await unlessAborted(wake.promise, signal);
    }
  } finally {
    off();
  }
}

/** Time passing is no change. */
function comparable(status: GetStatusResponse): Uint8Array {
  const nodes = status.nodes.map((node) => ({ ...node, uptimeSeconds: 0n }));
  const jobs = status.jobs.map((job) => ({ ...job, secondsLeft: 0n }));
  const datasets = status.datasets.map((dataset) => ({ ...dataset, use: 0 }));
  return GetStatusResponse.encode({ ...status, nodes, jobs, datasets }).finish();
}
