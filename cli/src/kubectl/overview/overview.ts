import type { Pod } from '@hearth/common/kubernetes';
import {
  type CachePreload,
  type Condition,
  type Dataset,
  type NodeCache,
  preloadAnnotation,
  preloadGateName,
  type StorageCluster,
} from '@hearth/common/resources';

/** Kubernetes objects that the user may read. */
export interface OverviewFacts {
  clusters: StorageCluster[];
  nodes: NodeCache[];
  datasets: Dataset[];
  preloads: CachePreload[];
  /** Pending pods. */
  pods: Pod[];
  unseen: string[];
}

/** The state of Hearth in a cluster. Sizes are bytes, times seconds. */
export interface Overview {
  clusters: ClusterRow[];
  nodes: NodeRow[];
  datasets: DatasetRow[];
  /** Incomplete preloads. */
  preloads: PreloadRow[];
  preloadsReady: number;
  waiting: WaitingPod[];
  /** Facts that the user may not read. */
  unseen: string[];
}

export interface ClusterRow {
  name: string;
  ready: boolean;
  message: string;
  nodesReady: number;
  nodesDesired: number;
  usedBytes: number;
  capacityBytes: number;
}

export interface NodeRow {
  node: string;
  cluster: string;
  ready: boolean;
  reason: string;
  usedBytes: number;
  budgetBytes: number;
  percent: number;
  datasets: number;
  /** Time since the agent's report; undefined: no report. */
  ageSeconds: number | undefined;
}

export interface DatasetRow {
  namespace: string;
  name: string;
  ready: boolean;
  /** Reason why the Dataset is not Ready. */
  message: string;
  bytes: number;
  files: number;
  /** Percent on the fullest node. */
  percent: number;
  nodesComplete: number;
}

export interface PreloadRow {
  namespace: string;
  name: string;
  phase: string;
  percent: number;
  bytesReady: number;
  bytesTotal: number;
  bytesPerSecond: number;
  secondsLeft: number | undefined;
  nodesReady: number;
  nodesTotal: number;
  podsWaiting: number;
  waitingFor: string;
}

export interface WaitingPod {
  namespace: string;
  name: string;
  ageSeconds: number;
  /** The event that the pod waits for, as a sentence. */
  waitsFor: string;
  percent: number;
  secondsLeft: number | undefined;
}

/** Pure. `now`: milliseconds since the epoch. */
export function overviewOf(facts: OverviewFacts, now: number): Overview {
  const plans = new Map(facts.preloads.map((one) => [keyOf(one.metadata.namespace, one.metadata.name), one]));
  const moving = facts.preloads.filter(({ status }) => status?.phase !== 'Ready');
  return {
    clusters: facts.clusters.map(clusterRow),
    nodes: facts.nodes.map((one) => nodeRow(one, now)),
    datasets: facts.datasets.map(datasetRow),
    preloads: moving.map(preloadRow),
    preloadsReady: facts.preloads.length - moving.length,
    waiting: facts.pods.filter(isHeld).map((pod) => waitingPod(pod, plans, now)),
    unseen: facts.unseen,
  };
}

function clusterRow({ metadata, status }: StorageCluster): ClusterRow {
  return {
    name: metadata.name,
    ...readiness(status?.conditions),
    nodesReady: status?.nodesReady ?? 0,
    nodesDesired: status?.nodesDesired ?? 0,
    usedBytes: status?.usedBytes ?? 0,
    capacityBytes: status?.capacityBytes ?? 0,
  };
}

function nodeRow({ metadata, spec, status }: NodeCache, now: number): NodeRow {
  return {
    node: metadata.name,
    cluster: spec.clusterRef.name,
    ready: status?.ready === true,
    reason: status?.ready === true ? '' : (status?.reason ?? 'the agent has not reported yet'),
    usedBytes: status?.usedBytes ?? 0,
    budgetBytes: status?.budgetBytes ?? 0,
    percent: status?.percent ?? 0,
    datasets: status?.datasets?.length ?? 0,
    ageSeconds: status?.updatedAt === undefined ? undefined : secondsSince(status.updatedAt, now),
  };
}

function datasetRow({ metadata, status }: Dataset): DatasetRow {
  return {
    namespace: metadata.namespace ?? '',
    name: metadata.name,
    ...readiness(status?.conditions),
    bytes: status?.bytes ?? 0,
    files: status?.files ?? 0,
    percent: status?.percent ?? 0,
    nodesComplete: status?.nodes ?? 0,
  };
}

function preloadRow({ metadata, status }: CachePreload): PreloadRow {
  return {
    namespace: metadata.namespace ?? '',
    name: metadata.name,
    phase: status?.phase ?? 'Pending',
    percent: status?.percent ?? 0,
    bytesReady: status?.bytesReady ?? 0,
    bytesTotal: status?.bytesTotal ?? 0,
    bytesPerSecond: status?.bytesPerSecond ?? 0,
    secondsLeft: status?.secondsLeft,
    nodesReady: status?.nodesReady ?? 0,
    nodesTotal: status?.nodesTotal ?? 0,
    podsWaiting: status?.pods?.waiting ?? 0,
    waitingFor: status?.waitingFor ?? '',
  };
}

function isHeld({ spec }: Pod): boolean {
  return spec?.schedulingGates?.some(({ name }) => name === preloadGateName) ?? false;
}

function waitingPod({ metadata }: Pod, plans: Map<string, CachePreload>, now: number): WaitingPod {
  const plan = metadata?.annotations?.[preloadAnnotation];
  const status = plan === undefined ? undefined : plans.get(keyOf(metadata?.namespace, plan))?.status;
  return {
    namespace: metadata?.namespace ?? '',
    name: metadata?.name ?? '',
    ageSeconds: secondsSince(String(metadata?.creationTimestamp ?? ''), now),
    waitsFor: status?.waitingFor || 'a plan of the operator',
    percent: status?.percent ?? 0,
    secondsLeft: status?.secondsLeft,
  };
}

function readiness(conditions: Condition[] | undefined): { ready: boolean; message: string } {
  const one = conditions?.find(({ type }) => type === 'Ready');
  const ready = one?.status === 'True';
  return { ready, message: ready ? '' : (one?.message ?? 'the operator has not observed it yet') };
}

function keyOf(namespace: string | undefined, name: string): string {
  return `${namespace ?? ''}/${name}`;
}

function secondsSince(time: string, now: number): number {
  const at = Date.parse(time);
  return Number.isNaN(at) ? 0 : Math.max(0, (now - at) / 1000);
}
