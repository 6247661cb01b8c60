import type { CachePreload, CachePreloadStatus, PreloadedNode, PreloadPhase } from '@hearth/common/resources';
import type { DesiredStatus } from '../reconciler/index.ts';
import { type Assessment, assess, percentOf } from './assessment.ts';
import { conditionsOf, waitingFor } from './conditions.ts';
import type { ObservedPreload } from './observation.ts';
import { isOfPresentSpec, type NodeProgress, totalOf, wholeSeconds } from './progress.ts';
import type { NodeReadiness } from './readiness.ts';
import { bytesOf, hasEnded } from './wanted.ts';

const maxNodes = 500;
const longestText = 1024;

export function statusOf(preload: CachePreload, observed: ObservedPreload): DesiredStatus<CachePreload> {
  const assessment = assess(preload, observed);
  const conditions = conditionsOf(preload, observed, assessment);
  const phase = phaseOf(preload, observed, assessment);
  const pods = podsOf(preload, observed);
  const common = { conditions, phase, waitingFor: waitingFor(assessment, observed), ...pods };
  const { status } = preload;
  // Without an agent, or after the ttl, the figures stay as they were.
  if (observed.agents?.connected !== true || assessment.expired) return { ...figuresOf(status), ...common };
  const unbound = assessment.wanted.length < (status?.revisions?.length ?? 0);
  const arrived = assessment.inMemory && status?.inMemoryAt === undefined;
  if (observed.holdMs > 0 && status?.phase === phase && !assessment.newRound && !unbound && !arrived) {
    return { ...figuresOf(status), ...common, waitingFor: ignoringFigures(status.waitingFor, common.waitingFor) };
  }
  return { ...freshFigures(preload, observed, assessment), ...common };
}

/** Keeps the written sentence when only figures in it would change. */
function ignoringFigures(written: string | undefined, present: string): string {
  const words = (sentence: string) => sentence.replace(/\d+ (?:%|s\b|bytes\b)/g, '#');
  return written !== undefined && words(written) === words(present) ? written : present;
}

/** Pure. The readiness of the chosen nodes, for the gates. */
export function readinessOf(preload: CachePreload, observed: ObservedPreload): Map<string, NodeReadiness> | undefined {
  const { agents, pins } = observed;
  if (agents?.connected !== true || pins === undefined) return undefined;
  const { nodes } = assess(preload, observed);
  return new Map(
    nodes.map((node) => {
      if (!node.present) return [node.name, { percent: 0, memoryPercent: 0, pinned: false }];
      const percent = shareOf(node, node.stored, 'bytesReady');
      const memoryPercent = shareOf(node, node.inMemory, 'bytesInMemory');
      return [node.name, { percent, memoryPercent, pinned: node.pinned }];
    }),
  );
}

/** Only a complete copy reports 100. */
function shareOf(node: NodeProgress, complete: boolean, field: 'bytesReady' | 'bytesInMemory'): number {
  return complete ? 100 : Math.min(99, percentOf(totalOf(node, field), totalOf(node, 'bytes')));
}

type Figures = Omit<CachePreloadStatus, 'observedGeneration' | 'conditions' | 'phase' | 'waitingFor' | 'pods'>;

function figuresOf(status: CachePreloadStatus | undefined): Figures {
  const { observedGeneration, conditions, phase, waitingFor, pods, ...figures } = status ?? {};
  return figures;
}

function freshFigures(preload: CachePreload, observed: ObservedPreload, assessment: Assessment): Figures {
  const { status } = preload;
  const { nodes, wanted, complete, inMemory, newRound } = assessment;
  const rows = nodes.map((node) => rowOf(node, newRound ? undefined : preload));
  const parts = nodes.flatMap((node) => node.parts);
  const bytesTotal = wanted.reduce((sum, one) => sum + bytesOf(one), 0) * nodes.length;
  const bytesReady = rows.reduce((total, row) => total + row.bytesReady, 0);
  const running = observed.jobs.filter((job) => !hasEnded(job));
  const bytesPerSecond = running.reduce((sum, job) => sum + Number(job.bytesPerSecond), 0);
  const left = bytesTotal - bytesReady;
  const now = wholeSeconds(observed.now);
  const began = observed.jobs.length > 0 || bytesReady > 0;
  const startedAt = newRound ? (began || complete ? now : undefined) : (status?.startedAt ?? (began ? now : undefined));
  const completedAt = complete ? ((newRound ? undefined : status?.completedAt) ?? now) : undefined;
  const inMemoryAt = inMemory ? ((newRound ? undefined : status?.inMemoryAt) ?? now) : undefined;
  return {
    bytesTotal,
    bytesVerified: parts.reduce((sum, part) => sum + part.bytesVerified, 0),
    bytesReady,
    bytesInMemory: rows.reduce((total, row) => total + (row.bytesInMemory ?? 0), 0),
    percent: percentOf(bytesReady, bytesTotal),
    bytesPerSecond,
    ...(bytesPerSecond > 0 && left > 0 ? { secondsLeft: Math.ceil(left / bytesPerSecond) } : {}),
    nodesTotal: nodes.length,
    nodesReady: nodes.filter(({ phase }) => phase === 'Ready').length,
    revisions: wanted.map(({ dataset, manifest, revision: text }) => {
      return { dataset, manifest, revision: text.slice(0, longestText) };
    }),
    nodes: rows.sort(byReadiness).slice(0, maxNodes),
    ...(startedAt === undefined ? {} : { startedAt }),
    ...(inMemoryAt === undefined ? {} : { inMemoryAt }),
    ...(completedAt === undefined ? {} : { completedAt }),
  };
}

/** Never counts down: a job that starts again counts from zero, while the bytes stay on the node. */
function rowOf(node: NodeProgress, preload: CachePreload | undefined): PreloadedNode {
  const status = preload?.status;
  const isKnown = preload !== undefined && isOfPresentSpec(preload);
  const before = isKnown ? status?.nodes?.find(({ name }) => name === node.name) : undefined;
  const bytesTotal = totalOf(node, 'bytes');
  const highest = (field: 'bytesReady' | 'bytesVerified' | 'originBytes' | 'peerBytes') => {
    const known = before !== undefined && before.phase !== 'Gone' ? before[field] : 0;
    return Math.max(totalOf(node, field), known);
  };
  const bytesReady = Math.min(bytesTotal, highest('bytesReady'));
  return {
    name: node.name,
    phase: node.phase,
    bytesTotal,
    bytesReady,
    bytesInMemory: Math.max(bytesReady, Math.min(bytesTotal, totalOf(node, 'bytesInMemory'))),
    bytesVerified: Math.min(bytesTotal, highest('bytesVerified')),
    percent: percentOf(bytesReady, bytesTotal),
    originBytes: highest('originBytes'),
    peerBytes: highest('peerBytes'),
    message: node.message.slice(0, longestText),
    ...arrivalsOf(node, before),
  };
}

type Arrivals = Pick<PreloadedNode, 'inMemoryAt' | 'storedAt' | 'secondsToMemory' | 'secondsToStored'>;

/** Keeps the written times after agents have forgotten the jobs. */
function arrivalsOf({ parts, inMemory, stored }: NodeProgress, before: PreloadedNode | undefined): Arrivals {
  const begin = Math.min(...parts.map(({ requestedAt }) => requestedAt ?? Number.POSITIVE_INFINITY));
  const arrival = (at: 'inMemoryAt' | 'storedAt', seconds: 'secondsToMemory' | 'secondsToStored'): Arrivals => {
    const ms = Math.max(...parts.map((part) => part[at] ?? 0));
    if (ms > 0) return { [at]: wholeSeconds(ms), [seconds]: Math.max(0, ms - begin) / 1000 };
    return before?.[at] === undefined ? {} : { [at]: before[at], [seconds]: before[seconds] };
  };
  return {
    ...(inMemory ? arrival('inMemoryAt', 'secondsToMemory') : {}),
    ...(stored ? arrival('storedAt', 'secondsToStored') : {}),
  };
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
