import { type MetricRow, ofEngine, row } from './metric_row.ts';

/** Metrics of evictions that ask other agents about copies of files wanted in the cluster. */
export const copyRows: readonly MetricRow[] = [
  row(
    'counter',
    'evicted_copies_total',
    'Files evicted for room while they were wanted in the cluster: redundant (other agents keep them), last (none does), unanswered (agents that would know did not answer in time, or did not confirm it yet), or unasked (there was no time to ask, or they are of a release that knows no such question).',
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
    'Times that a file stayed when room was needed, as it is wanted and no other agent keeps it.',
    ofEngine((s) => s.copies.kept),
  ),
];
