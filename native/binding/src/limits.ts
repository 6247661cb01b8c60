/** Bytes a second of everything, and of what no reader waits for; 0: no limit. */
export interface BandwidthLimits {
  total: bigint;
  warm: bigint;
}

export type LimitOptions = Record<'origin' | 'peers' | 'disk', BandwidthLimits>;

/** Of one limit since the start. */
export interface LimitStatistics {
  what: 'origin' | 'from-peers' | 'to-peers' | 'disk';
  total: bigint;
  warm: bigint;
  /** Of what the limit is set for, by whether a reader waits. */
  classes: Record<'demand' | 'warm', { bytes: bigint; waitedSeconds: number; waiting: number }>;
}
