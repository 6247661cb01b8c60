import type { Cluster } from './cluster.ts';
import type { Measure } from './result.ts';

export interface Settings {
  /** Temporary folder on the disk. */
  directory: string;
  bytes: number;
  runs: number;
  /** Entries of the largest mount. */
  entries: number;
  /** Rows that ask for more runs get them (`Measure.times`). */
  repeated: boolean;
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
  /** So much of the runs that were asked for is enough, as a run takes long and gives the same; all unless given. */
  share?: number;
  /** It takes minutes before its first figure, so it is measured only when a row of it is named. */
  long?: boolean;
  /** It measures before it comes to its rows, so nothing may run beside it. */
  alone?: boolean;
  /** Its programs are those of this checkout, whatever `release` is: it has nothing to say of another one. */
  ownOnly?: boolean;
  /** Of its cluster's memory for chunks; as agents have it unless given. */
  memory?: (settings: Settings) => number;
  measure: (around: Surroundings) => Promise<void>;
}
