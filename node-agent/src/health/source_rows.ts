import type { SourceStatistics } from '@hearth/engine';
import { mirrorsOf } from '../origins/index.ts';
import { type MetricRow, row, type ValueRow } from './metric_row.ts';

/** Rows for each source of datasets with mirrors, by dataset and number, so that a corrected place adds no series. */
const ofSources =
  (read: (source: SourceStatistics) => bigint | number): ValueRow['read'] =>
  ({ agent }) =>
    agent.datasets.mirror.values().flatMap(({ name, manifest, source }) => {
      if (mirrorsOf(source).length === 0 || !agent.keeper.isOpen(manifest)) return [];
      const sources = agent.context.engine.sources({ manifest, dataset: name });
      return sources.map((one, at): [string[], number] => {
        return [[name, at === 0 ? 'first' : `mirror-${at}`], Number(read(one))];
      });
    });

const labels = ['dataset', 'source'];

/** Metrics of datasets with mirrors. */
export const sourceRows: readonly MetricRow[] = [
  row(
    'counter',
    'source_bytes_total',
    'Bytes received from a source of a dataset with mirrors; the listed source is "first", its mirrors are "mirror-1" and so on.',
    ofSources((source) => source.bytes),
    labels,
  ),
  row(
    'counter',
    'source_failures_total',
    'Failed requests to a source; each was retried at another source.',
    ofSources((source) => source.failures),
    labels,
  ),
  row(
    'counter',
    'source_stragglers_total',
    'Requests that went on to another source because this one was slow.',
    ofSources((source) => source.stragglers),
    labels,
  ),
  row(
    'counter',
    'source_unproved_files_total',
    'Files that agents do not read from a source: missing there, different, or without a proof that they are equal.',
    ofSources((source) => source.unproved),
    labels,
  ),
  row(
    'gauge',
    'source_aside',
    '1 while a source is put aside because it failed, stalled or returned wrong bytes.',
    ofSources((source) => (source.aside === '' ? 0 : 1)),
    labels,
  ),
];
