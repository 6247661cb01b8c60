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
    'Bytes counted against a configured limit of the node: demand when a reader waited for them, else warm.',
    ofLimits((used) => used.bytes),
    ['what', 'class'],
  ),
  row(
    'counter',
    'limit_waited_seconds_total',
    'Total seconds that requests waited for a limit of the node; concurrent waits add up.',
    ofLimits((used) => used.waitedSeconds),
    ['what', 'class'],
  ),
  row(
    'gauge',
    'limit_waiting',
    'Requests that wait for a limit of the node now.',
    ofLimits((used) => used.waiting),
    ['what', 'class'],
  ),
];
