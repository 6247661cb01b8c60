import type { Statistics } from '@hearth/engine';
import type { Agent } from '../agent/index.ts';

/** One metric, as it is listed and read. */
export interface MetricRow {
  name: string;
  help: string;
  kind: 'counter' | 'gauge';
  labels: string[];
  /** Values with their labels' values, from one reading of everything. */
  read: (seen: Seen) => [labels: string[], value: number][];
}

/** One consistent reading of the engine and the agent. */
export interface Seen {
  statistics: Statistics;
  agent: Agent;
}

export const one = (value: bigint | number | boolean): [string[], number][] => [[[], Number(value)]];
export const ofEngine =
  (read: (statistics: Statistics) => bigint | number): MetricRow['read'] =>
  ({ statistics }) =>
    one(read(statistics));
export const ofDirectories =
  (read: (directory: Statistics['directories'][number]) => bigint): MetricRow['read'] =>
  ({ statistics }) =>
    statistics.directories.map((directory) => [[directory.path], Number(read(directory))]);

export const row = (
  kind: MetricRow['kind'],
  name: string,
  help: string,
  read: MetricRow['read'],
  labels: string[] = [],
): MetricRow => ({
  name: `hearth_${name}`,
  help,
  kind,
  labels,
  read,
});
