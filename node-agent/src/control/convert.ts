import type {
  Dataset,
  DatasetResidency,
  MountRecord,
  NodeStatus,
  WarmJob,
  WarmJobNode,
} from '@hearth/common/generated/hearth/v1/control.ts';
import type { Member } from '../context.ts';
import type { DatasetRecord, ResolvingRecord } from '../datasets/index.ts';
import type { SeenMount } from '../mounts/index.ts';
import type { NodeStatistics } from '../statistics/index.ts';
import { type UsageRecord, usesAt } from '../usage/index.ts';
import { hasEnded, type SeenJob } from '../warm/index.ts';

/** Times in messages: ISO 8601 in UTC; '' for none. */
function timeText(milliseconds: number | undefined): string {
  return milliseconds === undefined ? '' : new Date(milliseconds).toISOString();
}

/** 0: not yet. Clamped, because clocks of agents differ slightly and bytes cannot arrive before the request. */
function secondsUntil(milliseconds: number | undefined, since: number): number {
  return milliseconds === undefined ? 0 : Math.max(0, milliseconds - since) / 1000;
}

/** State of a dataset beyond its record. */
export interface DatasetSight {
  resolving: ResolvingRecord | undefined;
  nodes: Iterable<NodeStatistics>;
  usage: UsageRecord | undefined;
  /** Milliseconds since the epoch. */
  now: number;
}

export function datasetMessage(dataset: DatasetRecord, { resolving, nodes, usage, now }: DatasetSight): Dataset {
  const { name, source, manifest, revision, files, bytes, state, message, warnings, createdAt } = dataset;
  const residency = [...nodes].flatMap((node): DatasetResidency[] => {
    const here = node.residency[name];
    if (here === undefined) return [];
    const { residentBytes, memoryBytes, completeFiles, pinned, dataPath, reason, sourcesAside = [] } = here;
    return [
      {
        node: node.node,
        residentBytes,
        memoryBytes,
        completeFiles: BigInt(completeFiles),
        pinned,
        dataPath,
        reason,
        sourcesAside: [...sourcesAside],
      },
    ];
  });
  return {
    name,
    source,
    manifest,
    revision,
    files: BigInt(files),
    bytes,
    state: resolving !== undefined && state === 'Failed' ? 'Resolving' : state,
    message: resolving === undefined ? message : `being listed by ${resolving.node}`,
    warnings,
    createdAt: timeText(createdAt),
    residency,
    use: usage === undefined ? 0 : usesAt(usage, now),
    usedAtMs: BigInt(Math.round(usage?.usedAt ?? 0)),
  };
}

/** A dataset during its first listing. */
export function resolvingMessage(resolving: ResolvingRecord): Dataset {
  return {
    name: resolving.name,
    source: resolving.source,
    manifest: '',
    revision: '',
    files: BigInt(resolving.filesListed),
    bytes: resolving.bytesListed,
    state: 'Resolving',
    message: `being listed by ${resolving.node}`,
    warnings: [],
    createdAt: timeText(resolving.startedAt),
    residency: [],
    use: 0,
    usedAtMs: 0n,
  };
}

export function jobMessage({ job, view }: SeenJob): WarmJob {
  const left = view.bytesTotal - view.bytesReady;
  const known = !hasEnded(view.state) && view.bytesPerSecond > 0n && left > 0n;
  return {
    name: job.name,
    dataset: job.dataset,
    manifest: job.manifest,
    state: view.state,
    message: view.message,
    nodes: view.nodes.map(
      (node): WarmJobNode => ({
        node: node.node,
        state: node.state,
        bytesTotal: node.bytesTotal,
        bytesReady: node.bytesReady,
        bytesInMemory: node.bytesInMemory,
        inMemoryAt: timeText(node.inMemoryAt),
        storedAt: timeText(node.storedAt),
        secondsToMemory: secondsUntil(node.inMemoryAt, job.createdAt),
        secondsToStored: secondsUntil(node.storedAt, job.createdAt),
        filesTotal: BigInt(node.filesTotal),
        filesReady: BigInt(node.filesReady),
        filesVerified: BigInt(node.filesVerified),
        originBytes: node.originBytes,
        peerBytes: node.peerBytes,
        bytesVerified: node.bytesVerified,
        rateLimit: node.share,
        message: node.gone && node.message === '' ? 'the agent is gone' : node.message,
        errorCode: node.errorCode ?? '',
      }),
    ),
    bytesTotal: view.bytesTotal,
    bytesReady: view.bytesReady,
    bytesInMemory: view.bytesInMemory,
    inMemoryAt: timeText(view.inMemoryAt),
    storedAt: timeText(view.storedAt),
    secondsToMemory: secondsUntil(view.inMemoryAt, job.createdAt),
    secondsToStored: secondsUntil(view.storedAt, job.createdAt),
    readyWhen: job.readyWhen,
    ready: view.ready,
    bytesVerified: view.bytesVerified,
    bytesPerSecond: view.bytesPerSecond,
    secondsLeft: known ? (left + view.bytesPerSecond - 1n) / view.bytesPerSecond : 0n,
    createdAt: timeText(job.createdAt),
    endedAt: timeText(job.end?.at ?? job.cancelledAt),
    pin: job.pin,
    pinOwner: job.pinOwner,
    rateLimit: job.rateLimit,
    peerRateLimit: job.peerRateLimit,
    errorCode: view.errorCode ?? '',
    advice: job.advice ?? '',
  };
}

export function mountMessage(mount: SeenMount): MountRecord {
  const { target, dataset, manifest, dataPath, reason, readsServed, bytesServed, passthroughOpens, daemonOpens } =
    mount;
  return { target, dataset, manifest, dataPath, reason, readsServed, bytesServed, passthroughOpens, daemonOpens };
}

/** `missing`: reason why the figures are unknown; empty when they are known or the agent has none. */
export function nodeMessage(
  member: Member,
  statistics: NodeStatistics | undefined,
  { missing, now }: { missing: string; now: number },
): NodeStatus {
  const seconds = statistics === undefined ? 0 : Math.max(0, Math.floor((now - statistics.startedAt) / 1000));
  return {
    ...member,
    budgetBytes: statistics?.budgetBytes ?? 0n,
    usedBytes: statistics?.usedBytes ?? 0n,
    freeBytes: statistics?.freeBytes ?? 0n,
    originBytes: statistics?.originBytes ?? 0n,
    peerBytesReceived: statistics?.peerBytesReceived ?? 0n,
    peerBytesSent: statistics?.peerBytesSent ?? 0n,
    corruptBlocks: statistics?.corruptBlocks ?? 0n,
    uptimeSeconds: BigInt(seconds),
    capabilities: (statistics?.capabilities ?? []).map((one) => ({
      ...one,
      pods: one.pods ?? [],
      podsLeftOut: one.podsLeftOut ?? 0,
    })),
    pinnedBytes: statistics?.pinnedBytes ?? 0n,
    rdma: statistics?.rdma,
    residentBytes: Object.fromEntries(
      Object.entries(statistics?.residency ?? {}).map(([name, { residentBytes }]) => [name, residentBytes]),
    ),
    figuresMissing: missing,
  };
}
