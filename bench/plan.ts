import type { Cluster } from './cluster.ts';
import type { Measure } from './result.ts';

export interface Settings {
  /** Temporary folder on the disk. */
  directory: string;
  bytes: number;
  runs: number;
  /** Entries of the largest mount. */
  entries: number;
}

export interface Surroundings extends Settings {
  cluster: Cluster;
  /** Measures a row, unless it was not asked for, and prints it. */
  row: (measure: Measure) => Promise<void>;
}

/** Rows that need the same data. */
export interface Group {
  /** Prefixes of its rows. */
  ids: string[];
  measure: (around: Surroundings) => Promise<void>;
}
