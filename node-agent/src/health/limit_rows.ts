import type { LimitStatistics } from '@hearth/engine';
import { type MetricRow, row, type ValueRow } from './metric_row.ts';

const ofLimits =
  (read: (used: LimitStatistics['classes']['warm']) => bigint | number): ValueRow['read'] =>
  ({ statistics }) =>
    statistics.limits
      .filter(({ total, warm }) => total + warm > 0n)
      .flatMap(({ what, classes }) =>
        Object.entries(classes).map(([name, used]): [string[], number] => [[what, name], Number(read(used))]),
      );

/** Metrics of the node's configured limits. */
export const limitRows: readonly MetricRow[] = [
  row(
    'counter',
    'limit_bytes_total',
    'Bytes that passed a limit of the node, where it is set, by whether a reader waited for them (demand) or none did (warm).',
    ofLimits((used) => used.bytes),
    ['what', 'class'],
  ),
  row(
    'counter',
    'limit_waited_seconds_total',
    'Seconds that work waited for a limit of the node, those of all that waited at a time added up.',
    ofLimits((used) => used.waitedSeconds),
    ['what', 'class'],
  ),
  row(
    'gauge',
    'limit_waiting',
    'How many wait for a limit of the node now.',
    ofLimits((used) => used.waiting),
    ['what', 'class'],
  ),
];
