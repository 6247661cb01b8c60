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
  /** The checkout, built, that is measured. */
  release: string;
  /** Measures a row, unless it was not asked for, and prints it. */
  row: (measure: Measure) => Promise<void>;
}

/** Rows that need the same data. */
export interface Group {
  /** Prefixes of its rows. */
  ids: string[];
  /** It measures before it comes to its rows, so nothing may run beside it. */
  alone?: boolean;
  /** Its programs are those of this checkout, whatever `release` is: it has nothing to say of another one. */
  ownOnly?: boolean;
  measure: (around: Surroundings) => Promise<void>;
}
