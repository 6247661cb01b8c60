import type { LatencyHistogram, PeerStatistics, RdmaRailStatistics } from '@hearth/engine';

/** Totals of one RDMA port over all peers. */
export type RailTotals = Omit<RdmaRailStatistics, 'port' | 'usable' | 'reason' | 'bytesPerSecond'>;

export const noTraffic: RailTotals = {
  requests: 0n,
  bytesReceived: 0n,
  answers: 0n,
  bytesSent: 0n,
  bytesInPlace: 0n,
  bytesCopied: 0n,
  retries: 0n,
  pauses: 0n,
  failures: 0n,
  idleCloses: 0n,
  latency: { counts: [], seconds: 0 },
};

/** Totals by name of the port. */
export function railsByPort(peers: readonly PeerStatistics[]): Map<string, RailTotals> {
  const totals = new Map<string, RailTotals>();
  for (const rail of peers.flatMap(({ rdma }) => rdma.rails)) {
    totals.set(rail.port, sum(totals.get(rail.port) ?? noTraffic, rail));
  }
  return totals;
}

function sum(a: RailTotals, b: RailTotals): RailTotals {
  return {
    requests: a.requests + b.requests,
    bytesReceived: a.bytesReceived + b.bytesReceived,
    answers: a.answers + b.answers,
    bytesSent: a.bytesSent + b.bytesSent,
    bytesInPlace: a.bytesInPlace + b.bytesInPlace,
    bytesCopied: a.bytesCopied + b.bytesCopied,
    retries: a.retries + b.retries,
    pauses: a.pauses + b.pauses,
    failures: a.failures + b.failures,
    idleCloses: a.idleCloses + b.idleCloses,
    latency: {
      counts: b.latency.counts.map((count, bucket) => count + (a.latency.counts[bucket] ?? 0)),
      seconds: a.latency.seconds + b.latency.seconds,
    },
  };
}

/** Latency quantile in microseconds: `share` (0 to 1) of the reads took less. 0 without reads. */
export function latencyBelow({ counts }: LatencyHistogram, share: number): bigint {
  const wanted = Math.ceil(share * counts.reduce((total, count) => total + count, 0));
  let seen = 0;
  for (const [bucket, count] of counts.entries()) {
    seen += count;
    if (seen > 0 && seen >= wanted) return 1n << BigInt(bucket);
  }
  return 0n;
}
