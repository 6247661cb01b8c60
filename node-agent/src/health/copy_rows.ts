import { type MetricRow, ofEngine, row } from './metric_row.ts';

/** Metrics of evictions that ask other agents about copies of files wanted in the cluster. */
export const copyRows: readonly MetricRow[] = [
  row(
    'counter',
    'evicted_copies_total',
    'Files evicted for room while they were wanted in the cluster: redundant (other agents keep copies), last (no other agent does), unanswered (the asked agents did not answer in time or have not confirmed yet), or unasked (no time to ask, or the release of the agents does not support the question).',
    ({ statistics: { copies } }) => [
      [['redundant'], Number(copies.redundant)],
      [['last'], Number(copies.last)],
      [['unanswered'], Number(copies.unanswered)],
      [['unasked'], Number(copies.unasked)],
    ],
    ['copy'],
  ),
  row(
    'counter',
    'last_copies_kept_total',
    'Number of times that a wanted file was spared from eviction because no other agent keeps a copy.',
    ofEngine((s) => s.copies.kept),
  ),
];
