import { type CachePreload, parseDuration } from '@hearth/common/resources';
import { type Choice, chooseNodes } from './choice.ts';
import type { ObservedPreload } from './observation.ts';
import { type NodeProgress, progressOf, timeOf } from './progress.ts';
import { missingRoom } from './room.ts';
import { type Wanted, wantedOf } from './wanted.ts';

export interface Obstacle {
  reason: 'DatasetNotFound' | 'DatasetNotReady' | 'ClustersDiffer' | 'AgentsUnavailable' | 'NoFilesMatch';
  message: string;
}

/** The state of a CachePreload, from which the plan and the status follow. Times are milliseconds since the epoch. */
export interface Assessment {
  obstacle: Obstacle | undefined;
  wanted: readonly Wanted[];
  choice: Choice;
  nodes: readonly NodeProgress[];
  /** Every wanted byte is resident, and pinned when the spec asks for pins. */
  complete: boolean;
  /** Every wanted byte is in the memory of its nodes, or stored there. */
  inMemory: boolean;
  stored: boolean;
  /** The state that `spec.readyWhen` asks for is reached. */
  ready: boolean;
  /** The status names other revisions. */
  newRound: boolean;
  /** Undefined when there is no deadline, or it was met. */
  deadlineAt: number | undefined;
  deadlinePassed: boolean;
  /** Undefined when pins never expire, or some bytes are still missing. */
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
  const chosen = measured && choice.trouble === undefined && nodes.length > 0;
  const complete = chosen && nodes.every(({ phase }) => phase === 'Ready');
  const inMemory = chosen && nodes.every((node) => node.inMemory);
  const early = spec.readyWhen === 'Memory' && inMemory && nodes.every(({ pinned }) => pinned);
  const newRound = wanted.some(
    ({ dataset, manifest }) => status?.revisions?.find((one) => one.dataset === dataset)?.manifest !== manifest,
  );
  const deadlineMs = parseDuration(spec.deadline ?? '');
  const deadlineAt =
    deadlineMs === undefined || complete || hasMetDeadline(preload)
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

/** Later revisions and nodes have no deadline. */
function hasMetDeadline({ status }: CachePreload): boolean {
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
  const notReady = observed.datasets.filter(({ trouble }) => trouble !== undefined);
  const [first] = notReady;
  if (first?.trouble !== undefined) {
    const more = notReady.length > 1 ? ` (and ${notReady.length - 1} more of ${spec.datasets.length})` : '';
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

/** Rounded down, so only a complete copy reports 100. */
export function percentOf(part: number, whole: number): number {
  return whole === 0 ? 0 : Math.min(100, Math.floor((part / whole) * 100));
}
