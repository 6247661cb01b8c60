import type { CachePreload, CachePreloadStatus, PreloadedNode, PreloadPhase } from '@hearth/common/resources';
import type { ConditionState, DesiredStatus } from '../reconciler/index.ts';
import { type Assessment, assess, percentOf, rateOf, totalsOf } from './assessment.ts';
import type { NodeReadiness } from './board.ts';
import type { ObservedPreload } from './observation.ts';
import { isOfPresentSpec, type NodeProgress } from './progress.ts';

const mostNodes = 500;
const longestText = 1024;
const maxListed = 5;

/** Pure. The status that a CachePreload should have. */
export function statusOf(preload: CachePreload, observed: ObservedPreload): DesiredStatus<CachePreload> {
  const assessment = assess(preload, observed);
  const conditions = conditionsOf(preload, observed, assessment);
  const phase = phaseOf(preload, observed, assessment);
  const pods = podsOf(preload, observed);
  const common = { conditions, phase, waitingFor: waitingFor(assessment, observed), ...pods };
  const { status } = preload;
  // No agent could say, or nothing changes any more: the figures stay as they were.
  if (observed.agents?.connected !== true || assessment.expired) return { ...figuresOf(status), ...common };
  const unbound = assessment.wanted.length < (status?.revisions?.length ?? 0);
  if (observed.holdMs > 0 && status?.phase === phase && !assessment.newRound && !unbound) {
    return { ...figuresOf(status), ...common };
  }
  return { ...freshFigures(preload, observed, assessment), ...common };
}

/** Pure. What the gates go by: of the nodes that are wanted now. */
export function readinessOf(preload: CachePreload, observed: ObservedPreload): Map<string, NodeReadiness> | undefined {
  const { agents, pins } = observed;
  if (agents?.connected !== true || pins === undefined) return undefined;
  const { nodes } = assess(preload, observed);
  return new Map(
    nodes.map((node) => {
      const there = node.parts.length > 0 && node.parts.every(({ state }) => state === 'ready');
      const percent = there ? 100 : Math.min(99, percentOf(sum(node, 'bytesReady'), sum(node, 'bytes')));
      return [node.name, { percent: node.present ? percent : 0, pinned: node.present && node.pinned }];
    }),
  );
}

type Figures = Omit<CachePreloadStatus, 'observedGeneration' | 'conditions' | 'phase' | 'waitingFor' | 'pods'>;

function figuresOf(status: CachePreloadStatus | undefined): Figures {
  const { observedGeneration, conditions, phase, waitingFor, pods, ...figures } = status ?? {};
  return figures;
}

function freshFigures(preload: CachePreload, observed: ObservedPreload, assessment: Assessment): Figures {
  const { status } = preload;
  const { nodes, wanted, complete, newRound } = assessment;
  const rows = nodes.map((node) => rowOf(node, newRound ? undefined : preload));
  const totals = totalsOf(assessment);
  const bytesReady = rows.reduce((total, row) => total + row.bytesReady, 0);
  const bytesPerSecond = rateOf(observed);
  const left = totals.bytesTotal - bytesReady;
  const now = `${new Date(observed.now).toISOString().slice(0, 19)}Z`;
  const began = observed.jobs.length > 0 || bytesReady > 0;
  const startedAt = newRound ? (began || complete ? now : undefined) : (status?.startedAt ?? (began ? now : undefined));
  const completedAt = complete ? ((newRound ? undefined : status?.completedAt) ?? now) : undefined;
  return {
    ...totals,
    bytesReady,
    percent: percentOf(bytesReady, totals.bytesTotal),
    bytesPerSecond,
    ...(bytesPerSecond > 0 && left > 0 ? { secondsLeft: Math.ceil(left / bytesPerSecond) } : {}),
    nodesTotal: nodes.length,
    nodesReady: nodes.filter(({ phase }) => phase === 'Ready').length,
    revisions: wanted.map(({ dataset, manifest, revision }) => ({
      dataset,
      manifest,
      revision: revision.slice(0, longestText),
    })),
    nodes: rows.sort(byReadiness).slice(0, mostNodes),
    ...(startedAt === undefined ? {} : { startedAt }),
    ...(completedAt === undefined ? {} : { completedAt }),
  };
}

/** Bytes that are there stay there: a job that begins again counts them from nothing. */
function rowOf(node: NodeProgress, preload: CachePreload | undefined): PreloadedNode {
  const status = preload?.status;
  const before =
    preload !== undefined && isOfPresentSpec(preload)
      ? status?.nodes?.find(({ name }) => name === node.name)
      : undefined;
  const bytesTotal = sum(node, 'bytes');
  const most = (field: 'bytesReady' | 'bytesVerified' | 'originBytes' | 'peerBytes') => {
    const known = before !== undefined && before.phase !== 'Gone' ? before[field] : 0;
    return Math.max(sum(node, field), known);
  };
  const bytesReady = Math.min(bytesTotal, most('bytesReady'));
  return {
    name: node.name,
    phase: node.phase,
    bytesTotal,
    bytesReady,
    bytesVerified: Math.min(bytesTotal, most('bytesVerified')),
    percent: percentOf(bytesReady, bytesTotal),
    originBytes: most('originBytes'),
    peerBytes: most('peerBytes'),
    message: node.message.slice(0, longestText),
  };
}

function sum({ parts }: NodeProgress, field: 'bytes' | 'bytesReady' | 'bytesVerified' | 'originBytes' | 'peerBytes') {
  return parts.reduce((total, part) => total + part[field], 0);
}

function byReadiness(a: PreloadedNode, b: PreloadedNode): number {
  return Number(a.phase === 'Ready') - Number(b.phase === 'Ready') || (a.name < b.name ? -1 : 1);
}

function podsOf({ spec, status }: CachePreload, { pods }: ObservedPreload): Pick<CachePreloadStatus, 'pods'> {
  if (spec.placement.gatedPods === undefined) return {};
  if (pods === undefined) return status?.pods === undefined ? {} : { pods: status.pods };
  const { waiting, released, reason } = pods;
  return { pods: { waiting, released, reason: reason.slice(0, longestText) } };
}

function phaseOf(preload: CachePreload, { agents }: ObservedPreload, assessment: Assessment): PreloadPhase {
  const { obstacle, deadlinePassed, complete, expired, nodes } = assessment;
  if (expired) return 'Ready';
  if (obstacle?.reason === 'NoFilesMatch' || obstacle?.reason === 'ClustersDiffer') return 'Failed';
  if (deadlinePassed) return 'Failed';
  if (agents?.connected !== true) return preload.status?.phase ?? 'Pending';
  if (complete) return 'Ready';
  const phases = new Set(nodes.map(({ phase }) => phase));
  if (phases.has('Warming')) return 'Warming';
  if (phases.has('Verifying')) return 'Verifying';
  return nodes.some(({ parts }) => parts.some(({ jobs }) => jobs.length > 0)) ? 'Warming' : 'Pending';
}

const condition = (
  type: string,
  status: ConditionState['status'],
  reason: string,
  message: string,
): ConditionState => ({ type, status, reason, message: message.slice(0, 2048) });

function conditionsOf(preload: CachePreload, observed: ObservedPreload, assessment: Assessment): ConditionState[] {
  return [
    readyOf(preload, observed, assessment),
    datasetsCondition(observed, assessment),
    chosenCondition(assessment),
    spaceCondition(assessment),
    pinnedCondition(preload, assessment),
    ...deadlineCondition(preload, assessment),
  ];
}

function readyOf(preload: CachePreload, observed: ObservedPreload, assessment: Assessment): ConditionState {
  const { obstacle, deadlinePassed, complete, expired, choice, nodes } = assessment;
  const not = (reason: string, message: string) => condition('Ready', 'False', reason, message);
  if (expired) {
    return condition('Ready', 'True', 'Expired', 'everything was there; the ttl is over, and its pins were released');
  }
  if (deadlinePassed) {
    const message = `the deadline of ${preload.spec.deadline} passed when ${nodes.filter(({ phase }) => phase === 'Ready').length} of ${nodes.length} nodes had everything; what is there stays`;
    return not('DeadlineExceeded', message);
  }
  if (obstacle !== undefined) return not(obstacle.reason, obstacle.message);
  if (complete) {
    const words = `${nodes.length} ${nodes.length === 1 ? 'node has' : 'nodes have'} everything`;
    return condition('Ready', 'True', 'Ready', words);
  }
  const waiting = waitingFor(assessment, observed);
  const failed = nodes.find(({ phase }) => phase === 'Failed');
  const code = failed?.parts.find(({ errorCode }) => errorCode !== '')?.errorCode;
  if (failed !== undefined) return not(code ?? 'Failed', waiting);
  const phases = new Set(nodes.map(({ phase }) => phase));
  if (phases.has('Warming')) return not('Warming', 'bytes are on their way');
  if (phases.has('Verifying')) return not('Verifying', 'what has come is read again and compared');
  if (nodes.some(({ missingRoom }) => missingRoom > 0)) return not('InsufficientSpace', waiting);
  if (choice.trouble !== undefined) return not(choice.trouble.reason, choice.trouble.message);
  if (phases.has('Gone')) return not('NodesGone', waiting);
  return not('Pending', waiting);
}

function datasetsCondition({ datasets }: ObservedPreload, { obstacle, wanted }: Assessment): ConditionState {
  const about = obstacle?.reason;
  if (
    about === 'DatasetNotFound' ||
    about === 'DatasetNotReady' ||
    about === 'NoFilesMatch' ||
    about === 'ClustersDiffer'
  ) {
    return condition('DatasetsReady', 'False', about, obstacle?.message ?? '');
  }
  if (wanted.length < datasets.length)
    return condition('DatasetsReady', 'False', 'DatasetNotReady', 'not looked at yet');
  const words = wanted.map(({ dataset, manifest }) => `${dataset} ${manifest.slice(0, 12)}`).join(', ');
  return condition('DatasetsReady', 'True', 'Ready', words);
}

function chosenCondition({ choice: { trouble, nodes } }: Assessment): ConditionState {
  if (trouble !== undefined) return condition('NodesChosen', 'False', trouble.reason, trouble.message);
  const more = nodes.length > maxListed ? ` and ${nodes.length - maxListed} more` : '';
  return condition('NodesChosen', 'True', 'Chosen', `${nodes.slice(0, maxListed).join(', ')}${more}`);
}

function spaceCondition({ nodes, choice }: Assessment): ConditionState {
  const type = 'InsufficientSpace';
  const lacking = [
    ...nodes.flatMap(({ name, missingRoom, present }): [string, number][] =>
      present && missingRoom > 0 ? [[name, missingRoom]] : [],
    ),
    ...choice.cramped,
  ].sort(([a], [b]) => (a < b ? -1 : 1));
  if (lacking.length === 0) return condition(type, 'False', 'Sufficient', 'the caches of its nodes have room');
  const each = lacking.slice(0, 20).map(([name, bytes]) => `${bytes} bytes on ${name}`);
  const more = lacking.length > 20 ? ` and on ${lacking.length - 20} more nodes` : '';
  const message = `the caches lack ${each.join(', ')}${more}; raise their budgets, or unpin other data`;
  return condition(type, 'True', 'BudgetTooSmall', message);
}

function pinnedCondition({ spec }: CachePreload, { nodes, expired }: Assessment): ConditionState {
  if (!spec.pin) return condition('Pinned', 'False', 'NotWanted', 'spec.pin is false');
  if (expired) return condition('Pinned', 'False', 'Expired', `the ttl of ${spec.ttl} is over`);
  const lacking = nodes.filter(({ pinned }) => !pinned);
  if (nodes.length > 0 && lacking.length === 0)
    return condition('Pinned', 'True', 'Pinned', 'all nodes keep the files');
  const names = lacking.slice(0, maxListed).map(({ name }) => name);
  return condition(
    'Pinned',
    'False',
    'Pending',
    nodes.length === 0 ? 'there is no node yet' : `not yet on ${names.join(', ')}`,
  );
}

function deadlineCondition(preload: CachePreload, { deadlineAt, deadlinePassed }: Assessment): ConditionState[] {
  const { deadline } = preload.spec;
  if (deadline === undefined) return [];
  if (deadlinePassed) return [condition('DeadlineMet', 'False', 'DeadlineExceeded', `${deadline} after its creation`)];
  if (deadlineAt === undefined) return [condition('DeadlineMet', 'True', 'Met', 'everything was there in time')];
  return [condition('DeadlineMet', 'Unknown', 'Counting', `until ${new Date(deadlineAt).toISOString().slice(0, 19)}Z`)];
}

/** One sentence: what is waited for now; empty: nothing. */
function waitingFor(assessment: Assessment, { now, agents }: ObservedPreload): string {
  const { obstacle, choice, nodes, complete, deadlinePassed, expired } = assessment;
  if (complete || expired || deadlinePassed) return '';
  if (obstacle !== undefined || agents?.connected !== true) return (obstacle?.message ?? '').slice(0, longestText);
  const lacking = nodes.filter(({ phase }) => phase !== 'Ready');
  const words = lacking.slice(0, maxListed).map((node) => `${node.name}${describe(node, now)}`);
  if (lacking.length > maxListed) words.push(`and ${lacking.length - maxListed} more nodes`);
  if (choice.trouble !== undefined) words.unshift(choice.trouble.message);
  return words.join('; ').slice(0, longestText);
}

function describe(node: NodeProgress, now: number): string {
  const percent = percentOf(sum(node, 'bytesReady'), sum(node, 'bytes'));
  const retryAt = Math.max(0, ...node.parts.map((part) => (part.state === 'failed' ? (part.retryAt ?? 0) : 0)));
  if (node.phase === 'Failed') {
    const when = retryAt > now ? `tries again in ${Math.ceil((retryAt - now) / 1000)} s` : 'tries again';
    return ` (${percent} %) ${when}: ${node.message}`;
  }
  if (node.message !== '') return node.phase === 'Warming' ? ` (${percent} %): ${node.message}` : `: ${node.message}`;
  switch (node.phase) {
    case 'Warming':
      return ` (${percent} %)`;
    case 'Verifying':
      return ' (verifying)';
    default:
      return ' (not begun)';
  }
}
