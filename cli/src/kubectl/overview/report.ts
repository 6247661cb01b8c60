import { printable, toneOf } from '../../format/paint.ts';
import { renderBar } from '../../format/progress.ts';
import { formatBytes, formatCount, formatRate, formatSeconds } from '../../format/quantity.ts';
import type { Output } from '../../output.ts';
import type { DatasetRow, NodeRow, Overview, PreloadRow, WaitingPod } from './overview.ts';

const barWidth = 12;
const stateOf = ({ ready }: { ready: boolean }) => (ready ? 'ready' : 'not ready');

export function printOverview(output: Output, overview: Overview): void {
  for (const { name, nodesReady, nodesDesired, usedBytes, capacityBytes, message } of overview.clusters) {
    const trouble = message === '' ? '' : `: ${printable(message)}`;
    output.print(
      `StorageCluster ${printable(name)}: ${nodesReady} of ${formatCount(nodesDesired, 'node')} ready, ` +
        `${formatBytes(usedBytes)} of ${formatBytes(capacityBytes)} used${trouble}`,
    );
  }
  if (overview.clusters.length === 0 && overview.unseen.length === 0) {
    output.print('There is no StorageCluster: no node keeps bytes. See examples/storagecluster.yaml.');
  }
  section(output, overview.nodes, printNodes);
  section(output, overview.datasets, printDatasets);
  section(output, overview.preloads, printPreloads);
  section(output, overview.waiting, printWaiting);
  if (overview.preloadsReady > 0) output.print('', `${formatCount(overview.preloadsReady, 'preload')} complete.`);
  if (overview.unseen.length > 0) output.print('', ...overview.unseen.map((one) => `Note: ${one}`));
}

function section<Row>(output: Output, rows: Row[], print: (output: Output, rows: Row[]) => void): void {
  if (rows.length === 0) return;
  output.print('');
  print(output, rows);
}

function printNodes(output: Output, rows: NodeRow[]): void {
  output.printTable(
    [
      { title: 'NODE', value: ({ node }) => node },
      { title: 'STATE', value: stateOf, tone: (one) => toneOf(stateOf(one)) },
      { title: 'CACHE', value: ({ percent }) => renderBar(percent / 100, barWidth, output.terminal.unicode) },
      { title: '', value: ({ percent }) => `${percent}%`, align: 'right' },
      { title: 'USED', value: ({ usedBytes }) => formatBytes(usedBytes), align: 'right' },
      { title: 'BUDGET', value: ({ budgetBytes }) => formatBytes(budgetBytes), align: 'right' },
      { title: 'DATASETS', value: ({ datasets }) => String(datasets), align: 'right', dispensable: 1 },
      {
        title: 'REPORTED',
        value: ({ ageSeconds }) => (ageSeconds === undefined ? 'never' : `${formatSeconds(ageSeconds)} ago`),
        dispensable: 2,
      },
      { title: 'REASON', value: ({ reason }) => reason, flexible: true, omitEmpty: true },
    ],
    rows,
  );
}

function printDatasets(output: Output, rows: DatasetRow[]): void {
  output.printTable(
    [
      { title: 'DATASET', value: ({ namespace, name }) => `${namespace}/${name}` },
      { title: 'STATE', value: stateOf, tone: (one) => toneOf(stateOf(one)) },
      { title: 'SIZE', value: ({ bytes }) => formatBytes(bytes), align: 'right' },
      { title: 'FILES', value: ({ files }) => String(files), align: 'right', dispensable: 1 },
      { title: 'COMPLETE ON', value: ({ nodesComplete }) => formatCount(nodesComplete, 'node') },
      { title: 'FULLEST', value: ({ percent }) => `${percent}%`, align: 'right' },
      { title: 'MESSAGE', value: ({ message }) => message, flexible: true, omitEmpty: true },
    ],
    rows,
  );
}

function printPreloads(output: Output, rows: PreloadRow[]): void {
  output.printTable(
    [
      { title: 'PRELOAD', value: ({ namespace, name }) => `${namespace}/${name}` },
      { title: 'PHASE', value: ({ phase }) => phase, tone: ({ phase }) => toneOf(phase) },
      { title: 'STORED', value: ({ percent }) => renderBar(percent / 100, barWidth, output.terminal.unicode) },
      { title: '', value: ({ percent }) => `${percent}%`, align: 'right' },
      { title: 'SIZE', value: ({ bytesTotal }) => formatBytes(bytesTotal), align: 'right' },
      {
        title: 'RATE',
        value: ({ bytesPerSecond }) => (bytesPerSecond > 0 ? formatRate(bytesPerSecond) : ''),
        omitEmpty: true,
      },
      { title: 'LEFT', value: ({ secondsLeft }) => leftText(secondsLeft), omitEmpty: true },
      { title: 'NODES', value: ({ nodesReady, nodesTotal }) => `${nodesReady}/${nodesTotal}` },
      { title: 'WAITS FOR', value: ({ waitingFor }) => waitingFor, flexible: true, omitEmpty: true },
    ],
    rows,
  );
}

function printWaiting(output: Output, rows: WaitingPod[]): void {
  output.printTable(
    [
      { title: 'WAITING POD', value: ({ namespace, name }) => `${namespace}/${name}` },
      { title: 'AGE', value: ({ ageSeconds }) => formatSeconds(ageSeconds) },
      { title: 'STORED', value: ({ percent }) => `${percent}%`, align: 'right' },
      { title: 'STARTS IN', value: ({ secondsLeft }) => leftText(secondsLeft), omitEmpty: true },
      { title: 'WAITS FOR', value: ({ waitsFor }) => waitsFor, flexible: true },
    ],
    rows,
  );
}

function leftText(seconds: number | undefined): string {
  return seconds === undefined ? '' : `about ${formatSeconds(seconds)}`;
}
