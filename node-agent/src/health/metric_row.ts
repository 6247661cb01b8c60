import type { Statistics, VolumeStatistics } from '@hearth/engine';
import type { Agent } from '../agent/index.ts';

interface Row<Kind extends string, Value> {
  name: string;
  help: string;
  kind: Kind;
  labels: string[];
  /** Values with their label values, from one consistent reading. */
  read: (seen: Seen) => [labels: string[], value: Value][];
}

export type ValueRow = Row<'counter' | 'gauge', number>;

/** Counts of the engine: `counts` has an entry for each of `bounds`, and one for larger values. */
export interface HistogramRow extends Row<'histogram', { counts: readonly number[]; sum: number }> {
  /** Ascending, inclusive upper bounds. */
  bounds: readonly number[];
}

/** Definition and reading of one metric. */
export type MetricRow = ValueRow | HistogramRow;

/** One consistent reading of the engine and the agent. */
export interface Seen {
  statistics: Statistics;
  volumes: VolumeStatistics[];
  agent: Agent;
}

export const one = (value: bigint | number | boolean): [string[], number][] => [[[], Number(value)]];
export const ofEngine =
  (read: (statistics: Statistics) => bigint | number): ValueRow['read'] =>
  ({ statistics }) =>
    one(read(statistics));
export const ofDirectories =
  (read: (directory: Statistics['directories'][number]) => bigint | boolean): ValueRow['read'] =>
  ({ statistics }) =>
    statistics.directories.map((directory) => [[directory.path], Number(read(directory))]);

export const row = (
  kind: ValueRow['kind'],
  name: string,
  help: string,
  read: ValueRow['read'],
  labels: string[] = [],
): ValueRow => ({
  name: `hearth_${name}`,
  help,
  kind,
  labels,
  read,
});
