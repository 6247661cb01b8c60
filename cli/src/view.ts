import { apiDifferences } from '@hearth/common';
import type { Dataset, DatasetResidency, GetStatusResponse } from '@hearth/common/generated/hearth/v1/control.ts';
import { formatBytes, formatPercent, fractionOf } from './format/quantity.ts';

/** A dataset for programs: its source as text that `dataset add` takes, beside the kind. */
export async function datasetView(dataset: Dataset) {
  const { source, ...rest } = dataset;
  const mirrors = await mirrorTexts(dataset);
  return {
    ...rest,
    source: await sourceText(dataset),
    sourceKind: source?.kind?.$case ?? '',
    ...(mirrors.length === 0 ? {} : { mirrors }),
  };
}

export async function statusView(status: GetStatusResponse) {
  return {
    ...status,
    datasets: await Promise.all(status.datasets.map(datasetView)),
    apiDifferences: apiDifferences(status, 'this command'),
  };
}

/** The source as a person writes it, without credentials. */
export async function sourceText(dataset: Dataset): Promise<string> {
  const { describeSource } = await import('@hearth/node-agent/source');
  return dataset.source === undefined ? '' : describeSource(dataset.source);
}

/** Its mirrors, as `sourceText`. */
export async function mirrorTexts(dataset: Dataset): Promise<string[]> {
  const { describeSource } = await import('@hearth/node-agent/source');
  return (dataset.source?.mirrors?.sources ?? []).map(describeSource);
}

/** Where a dataset's bytes are, in a word: `complete on 2 of 3`, `41% (1.2 GiB) at most`. */
export function residencyText(dataset: Dataset): string {
  const complete = dataset.residency.filter((one) => isComplete(dataset, one));
  if (complete.length > 0) return `complete on ${complete.length} of ${dataset.residency.length}`;
  let most = 0n;
  for (const { residentBytes } of dataset.residency) {
    if (residentBytes > most) most = residentBytes;
  }
  if (most === 0n) return 'nowhere';
  return `${formatPercent(fractionOf(most, dataset.bytes)).trim()} (${formatBytes(most)}) at most`;
}

function isComplete(dataset: Dataset, one: DatasetResidency): boolean {
  return one.residentBytes >= dataset.bytes && one.completeFiles >= dataset.files;
}
