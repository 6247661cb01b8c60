import { type CachePreload, parseDuration } from '@hearth/common/resources';
import { type Choice, chooseNodes } from './choice.ts';
import { hasEnded } from './job_request.ts';
import type { ObservedPreload } from './observation.ts';
import { type NodeProgress, progressOf, timeOf } from './progress.ts';
import { missingRoom } from './room.ts';
import { bytesOf, type Wanted, wantedOf } from './wanted.ts';

/** The reason why nothing at all can be done now. */
export interface Obstacle {
  reason: 'DatasetNotFound' | 'DatasetNotReady' | 'ClustersDiffer' | 'AgentsUnavailable' | 'NoFilesMatch';
  message: string;
}

/** Where a CachePreload stands. Pure: the plan and the status both follow from it. */
export interface Assessment {
  obstacle: Obstacle | undefined;
  wanted: readonly Wanted[];
  choice: Choice;
  nodes: readonly NodeProgress[];
  /** Everything is where it was asked for, and pinned if it was asked for. */
  complete: boolean;
  /** Everything can be read from the memory of its nodes, or is stored there. */
  inMemory: boolean;
  stored: boolean;
  /** It is as its spec asks for. */
  ready: boolean;
  /** The revisions are not those that were written last. */
  newRound: boolean;
  /** When it fails, milliseconds since the epoch; undefined: no deadline, or it was met. */
  deadlineAt: number | undefined;
  deadlinePassed: boolean;
  /** When the pins go, milliseconds since the epoch; undefined: not yet known, or never. */
  expiresAt: number | undefined;
  expired: boolean;
}

export function assess(preload: CachePreload, observed: ObservedPreload): Assessment {
  const { spec, status, metadata } = preload;
  const { now } = observed;
  const wanted = wantedOf(preload, observed);
  const obstacle = obstacleOf(preload, observed, wanted);
  const choice = chooseNodes(preload, observed, wanted);
  const nodes = choice.nodes.map((name) =>
    progressOf(name, preload, observed, wanted, missingRoom(name, preload, observed, wanted)),
  );
  const measured = wanted.length === spec.datasets.length && wanted.every(({ measure }) => measure?.kind === 'files');
  const there = nodes.every(({ phase }) => phase === 'Ready');
  const chosen = measured && choice.trouble === undefined && nodes.length > 0;
  const complete = chosen && there;
  const inMemory = chosen && nodes.every((node) => node.inMemory);
  const early = spec.readyWhen === 'Memory' && inMemory && nodes.every(({ pinned }) => pinned);
  const newRound = wanted.some(
    ({ dataset, manifest }) => status?.revisions?.find((one) => one.dataset === dataset)?.manifest !== manifest,
  );
  const deadlineMs = parseDuration(spec.deadline ?? '');
  const deadlineAt =
    deadlineMs === undefined || complete || wasMet(preload)
      ? undefined
      : timeOf(metadata.creationTimestamp) + deadlineMs;
  const ttlMs = parseDuration(spec.ttl ?? '');
  const completedAt = newRound ? undefined : status?.completedAt;
  const expiresAt = ttlMs === undefined || completedAt === undefined ? undefined : timeOf(completedAt) + ttlMs;
  return {
    obstacle,
    wanted,
    choice,
    nodes,
    complete,
    inMemory,
    stored: chosen && nodes.every((node) => node.stored),
    ready: complete || early,
    newRound: newRound && wanted.length > 0,
    deadlineAt,
    deadlinePassed: deadlineAt !== undefined && deadlineAt <= now,
    expiresAt,
    expired: expiresAt !== undefined && expiresAt <= now,
  };
}

/** Everything was there in time once: later revisions and nodes have no deadline. */
function wasMet({ status }: CachePreload): boolean {
  return status?.conditions?.some(({ type, status: holds }) => type === 'DeadlineMet' && holds === 'True') ?? false;
}

function obstacleOf(
  { spec }: CachePreload,
  observed: ObservedPreload,
  wanted: readonly Wanted[],
): Obstacle | undefined {
  if (observed.clusters.length > 1) {
    const message = `its Datasets are cached by different StorageClusters (${observed.clusters.join(', ')}): make a CachePreload for each`;
    return { reason: 'ClustersDiffer', message };
  }
  const none = wanted.find(({ measure }) => measure?.kind === 'none');
  if (none?.measure?.kind === 'none') return { reason: 'NoFilesMatch', message: none.measure.message };
  const troubled = observed.datasets.filter(({ trouble }) => trouble !== undefined);
  const [first] = troubled;
  if (first?.trouble !== undefined) {
    const more = troubled.length > 1 ? ` (and ${troubled.length - 1} more of ${spec.datasets.length})` : '';
    return { reason: first.trouble.reason, message: `${first.trouble.message}${more}` };
  }
  if (observed.agents?.connected !== true || observed.pins === undefined) {
    const [cluster] = observed.clusters;
    const message =
      cluster === undefined
        ? 'waits for a StorageCluster that caches its Datasets'
        : `waits for an agent of StorageCluster ${cluster}: kubectl describe storagecluster ${cluster} says why none answers`;
    return { reason: 'AgentsUnavailable', message };
  }
  const unknown = wanted.find(({ measure }) => measure?.kind !== 'files');
  if (unknown === undefined) return undefined;
  const why = unknown.measure?.kind === 'unknown' ? `: ${unknown.measure.message}` : '';
  return { reason: 'DatasetNotReady', message: `agents do not know the files of Dataset ${unknown.dataset} yet${why}` };
}

/** Sums over all nodes, in bytes. */
export function totalsOf({ nodes, wanted }: Pick<Assessment, 'nodes' | 'wanted'>) {
  const each = wanted.reduce((sum, one) => sum + bytesOf(one), 0);
  const parts = nodes.flatMap((node) => node.parts);
  return {
    bytesTotal: each * nodes.length,
    bytesReady: parts.reduce((sum, part) => sum + part.bytesReady, 0),
    bytesVerified: parts.reduce((sum, part) => sum + part.bytesVerified, 0),
  };
}

/** Rounded down: 100 is said of what is all there only. */
export function percentOf(part: number, whole: number): number {
  return whole === 0 ? 0 : Math.min(100, Math.floor((part / whole) * 100));
}

/** Bytes that became ready a second, of late, by all jobs that run. */
export function rateOf({ jobs }: ObservedPreload): number {
  return jobs.filter((job) => !hasEnded(job)).reduce((sum, job) => sum + Number(job.bytesPerSecond), 0);
}
