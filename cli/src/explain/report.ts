import { type Arrival, arrivalText } from '../format/arrival.ts';
import { printable, toneOf } from '../format/paint.ts';
import { renderBar } from '../format/progress.ts';
import { formatBytes, formatRate, formatSeconds } from '../format/quantity.ts';
import type { Output } from '../output.ts';
import type { ExplainedDataset, ExplainedNode, ExplainedPlan, Explanation, PodState } from './explanation.ts';

const barWidth = 12;

const stateWords: Record<PodState, string> = {
  Gated: 'held back until its bytes are there',
  GatedByOthers: 'held by gates of others',
  Unscheduled: 'not scheduled yet',
  Starting: 'starting',
  Running: 'running',
  Ended: 'ended',
};

/** Prints the explanation. `otherPods`: names of further pods of the requested object. */
export function printExplanation(output: Output, explanation: Explanation & { otherPods: string[] }): void {
  const { namespace, pod, state, node, ageSeconds, plan } = explanation;
  const where = node === undefined ? '' : ` on ${node}`;
  output.print(
    `Pod ${printable(`${namespace}/${pod}`)}: ${stateWords[state]}${where}, ${formatSeconds(ageSeconds)} old`,
  );
  if (explanation.otherPods.length > 0) output.print(othersText(explanation.otherPods));
  if (explanation.waitsFor !== '') output.print(`Waits for ${printable(explanation.waitsFor)}`);
  for (const line of times(explanation)) output.print(line);
  if (explanation.datasets.length > 0) {
    output.print('');
    printDatasets(output, explanation.datasets);
  }
  if (explanation.nodes.length > 0) {
    output.print('');
    printNodes(output, explanation.nodes);
  }
  if (plan !== undefined) {
    const bar = renderBar(plan.percent / 100, barWidth, output.terminal.unicode);
    const rate = plan.bytesPerSecond > 0 ? `, ${formatRate(plan.bytesPerSecond)}` : '';
    output.print('', `Plan ${printable(plan.name)}: ${plan.phase} ${bar} ${plan.percent}%${rate}`);
    output.print(`  ${planAmounts(plan)}`);
    for (const one of explanation.nodes) {
      const text = one.bytesInMemory === undefined ? '' : arrivalText(arrivalOf(one, one.bytesInMemory));
      if (text !== '') output.print(`  ${printable(one.node)}: ${text}`);
    }
    if (plan.reason !== '') output.print(`  ${printable(plan.reason)}`);
  }
  if (explanation.events.length > 0) {
    output.print('', 'Events:');
    for (const { reason, message, ageSeconds: age } of explanation.events) {
      output.print(`  ${formatSeconds(age)} ago  ${printable(reason)}: ${printable(message)}`);
    }
  }
  if (explanation.advice.length + explanation.unseen.length > 0) output.print('');
  for (const line of [...explanation.advice, ...explanation.unseen]) output.print(`Note: ${printable(line)}`);
}

function othersText(names: string[]): string {
  const shown = names.slice(0, 3).map(printable).join(', ');
  const more = names.length > 3 ? ` and ${names.length - 3} more` : '';
  return `Its controller has ${names.length} further ${names.length === 1 ? 'pod' : 'pods'}: ${shown}${more}`;
}

function planAmounts({ bytesReady, bytesInMemory, bytesTotal, readyWhen }: ExplainedPlan): string {
  const amounts = `${formatBytes(bytesReady)} of ${formatBytes(bytesTotal)} on its nodes`;
  const memory = bytesInMemory > bytesReady ? `, ${formatBytes(bytesInMemory)} including memory` : '';
  return `${amounts}${memory}${readyWhen === 'Memory' ? '; its pods start when all are in memory' : ''}`;
}

/** As an Arrival, to share the wording of jobs. */
function arrivalOf(node: ExplainedNode, bytesInMemory: number): Arrival {
  const { residentBytes, missingBytes, inMemoryAt, storedAt, secondsToMemory, secondsToStored } = node;
  return {
    bytesTotal: BigInt(residentBytes + missingBytes),
    bytesReady: BigInt(residentBytes),
    bytesInMemory: BigInt(bytesInMemory),
    inMemoryAt: inMemoryAt ?? '',
    storedAt: storedAt ?? '',
    secondsToMemory: secondsToMemory ?? 0,
    secondsToStored: secondsToStored ?? 0,
  };
}

function times({ startsInSeconds, opensInSeconds }: Explanation): string[] {
  const about = startsInSeconds === undefined ? '' : `Should start in about ${formatSeconds(startsInSeconds)}`;
  const latest = opensInSeconds === undefined ? '' : `its gate opens in ${formatSeconds(opensInSeconds)} at the latest`;
  const line = [about, latest].filter((part) => part !== '').join('; ');
  return line === '' ? [] : [`${line.charAt(0).toUpperCase()}${line.slice(1)}`];
}

function printDatasets(output: Output, datasets: ExplainedDataset[]): void {
  const state = ({ ready }: ExplainedDataset) => (ready ? 'ready' : 'not ready');
  output.printTable(
    [
      { title: 'DATASET', value: ({ dataset }) => dataset },
      { title: 'VOLUMES', value: ({ volumes }) => volumes.join(', ') },
      { title: 'STATE', value: state, tone: (one) => toneOf(state(one)) },
      { title: 'SIZE', value: ({ bytes }) => formatBytes(bytes), align: 'right' },
      { title: 'GATE', value: ({ gate }) => gate },
      { title: 'REVISION', value: ({ revision }) => revision.slice(0, 12), omitEmpty: true, dispensable: 1 },
      { title: 'MESSAGE', value: ({ message }) => message, flexible: true, omitEmpty: true },
    ],
    datasets,
  );
}

function printNodes(output: Output, nodes: ExplainedNode[]): void {
  const roles = { pod: 'the pod', planned: 'planned', '': '' } as const;
  output.printTable(
    [
      { title: 'NODE', value: ({ node }) => node },
      { title: 'FOR', value: ({ role }) => roles[role], omitEmpty: true },
      { title: 'THERE', value: ({ percent }) => renderBar(percent / 100, barWidth, output.terminal.unicode) },
      { title: '', value: ({ percent }) => `${percent}%`, align: 'right' },
      { title: 'MISSING', value: ({ missingBytes }) => formatBytes(missingBytes), align: 'right' },
      { title: 'DATA PATH', value: ({ dataPath }) => dataPath },
      { title: 'MESSAGE', value: ({ message }) => message, flexible: true, omitEmpty: true },
    ],
    nodes,
  );
}
