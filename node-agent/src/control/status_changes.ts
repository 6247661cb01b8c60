import { type Clock, sleep } from '@hearth/common';
import { Dataset, type GetStatusResponse, NodeStatus, WarmJob } from '@hearth/common/generated/hearth/v1/control.ts';
import type { StatusSource } from './status_stream.ts';

/** Encoded bytes of records in one message, below the 1 MiB of the protocol. */
const maxPartBytes = 512 << 10;
/** A caller hears of the agent at least this often, so that its silence means its loss. */
const heartbeatMs = 30_000;

type Kind = 'nodes' | 'datasets' | 'jobs';

/** A record that has changed, or the name of one that is gone. */
type Difference = { kind: Kind; bytes: number } & ({ record: NodeStatus | Dataset | WarmJob } | { gone: string });

/**
 * Yields the records of the cluster in parts, then those that have changed, at most once in `intervalMs`; ends when the
 * signal aborts. Remembers for each record the bytes that the caller has.
 */
export async function* watchChanges(
  source: StatusSource,
  intervalMs: number,
  signal: AbortSignal,
  clock: Clock,
): AsyncGenerator<GetStatusResponse> {
  const sent: Record<Kind, Map<string, Uint8Array>> = { nodes: new Map(), datasets: new Map(), jobs: new Map() };
  let wake = new AbortController();
  const off = source.onChange(() => wake.abort());
  let whole = true;
  let heardAt = 0;
  try {
    while (!signal.aborted) {
      wake = new AbortController();
      const status = await source.status();
      const differences = [
        ...differencesOf('nodes', status.nodes.map(nodeRow), sent.nodes),
        ...differencesOf('datasets', status.datasets.map(datasetRow), sent.datasets),
        ...differencesOf('jobs', status.jobs.map(jobRow), sent.jobs),
      ];
      if (whole || differences.length > 0 || clock.now() - heardAt >= heartbeatMs) {
        yield* partsOf(status, differences, whole);
        whole = false;
        heardAt = clock.now();
      }
      await sleep(clock, intervalMs, signal);
      await sleep(clock, heartbeatMs, AbortSignal.any([signal, wake.signal]));
    }
  } finally {
    off();
  }
}

interface Row {
  name: string;
  record: NodeStatus | Dataset | WarmJob;
  /** Equal bytes mean that nothing has changed but elapsed time. */
  comparable: Uint8Array;
}

const nodeRow = (node: NodeStatus): Row => ({
  name: node.node,
  record: node,
  comparable: NodeStatus.encode({ ...node, uptimeSeconds: 0n }).finish(),
});
const datasetRow = (dataset: Dataset): Row => ({
  name: dataset.name,
  record: dataset,
  comparable: Dataset.encode({ ...dataset, use: 0 }).finish(),
});
const jobRow = (job: WarmJob): Row => ({
  name: job.name,
  record: job,
  comparable: WarmJob.encode({ ...job, secondsLeft: 0n }).finish(),
});

/** Notes in `sent` that the caller will have the rows. */
function differencesOf(kind: Kind, rows: readonly Row[], sent: Map<string, Uint8Array>): Difference[] {
  const differences: Difference[] = [];
  for (const { name, record, comparable } of rows) {
    const before = sent.get(name);
    if (before !== undefined && Buffer.compare(before, comparable) === 0) continue;
    sent.set(name, comparable);
    differences.push({ kind, record, bytes: comparable.length });
  }
  const present = new Set(rows.map(({ name }) => name));
  for (const name of [...sent.keys()]) {
    if (present.has(name)) continue;
    sent.delete(name);
    differences.push({ kind, gone: name, bytes: name.length });
  }
  return differences;
}

/** At least one part. */
function partsOf(status: GetStatusResponse, differences: readonly Difference[], whole: boolean): GetStatusResponse[] {
  const { cluster, node, apiVersion, apiFeatures } = status;
  const empty = (): GetStatusResponse & { changes: NonNullable<GetStatusResponse['changes']> } => ({
    ...{ cluster, node, apiVersion, apiFeatures, nodes: [], datasets: [], jobs: [], mounts: [], volumes: [] },
    changes: { whole: false, more: true, nodesGone: [], datasetsGone: [], jobsGone: [] },
  });
  const parts = [empty()];
  let bytes = 0;
  for (const difference of differences) {
    if (bytes > 0 && bytes + difference.bytes > maxPartBytes) {
      parts.push(empty());
      bytes = 0;
    }
    bytes += difference.bytes;
    const part = parts.at(-1) ?? empty();
    if ('gone' in difference) part.changes[`${difference.kind}Gone`].push(difference.gone);
    else (part[difference.kind] as unknown[]).push(difference.record);
  }
  const [first = empty()] = parts;
  first.changes.whole = whole;
  (parts.at(-1) ?? first).changes.more = false;
  return parts;
}
