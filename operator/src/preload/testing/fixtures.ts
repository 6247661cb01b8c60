import {
  Dataset,
  type DatasetResidency,
  NodeStatus,
  WarmJob,
  type WarmJobNode,
} from '@hearth/common/generated/hearth/v1/control.ts';
import type { CachePreload, CachePreloadSpec, CachePreloadStatus } from '@hearth/common/resources';
import type { Measure, ObservedDataset, ObservedPreload } from '../observation.ts';
import { jobRequest, type Wanted, wantedId, wantedOf } from '../wanted.ts';

export const uid = '11111111-2222-3333-4444-555555555555';
export const manifest = 'ab'.repeat(32);
export const now = Date.parse('2026-05-01T12:00:00Z');
/** Size of the Dataset `d`. */
export const size = 1000;

export function preloadObject(
  spec: Partial<CachePreloadSpec>,
  status?: CachePreloadStatus,
  created = '2026-05-01T11:59:00Z',
): CachePreload {
  return {
    apiVersion: 'hearth.storage/v1alpha1',
    kind: 'CachePreload',
    metadata: { name: 'p', namespace: 'ns', uid, generation: 1, creationTimestamp: created },
    spec: {
      datasets: [{ name: 'd', paths: [] }],
      placement: { replicas: 2 },
      pin: true,
      priority: 100,
      verify: 'Checksum',
      readyWhen: 'Stored',
      revisions: 'Once',
      ...spec,
    },
    ...(status === undefined ? {} : { status: { observedGeneration: 1, ...status } }),
  };
}

/** A node's share of the Dataset `d`, and the state of its agent. */
export interface NodeShape {
  resident?: number;
  budget?: number;
  pinned?: number;
  ready?: boolean;
  agent?: boolean;
  labels?: Record<string, string>;
  features?: string[];
  /** As its agent describes them. */
  limits?: string;
}

export interface Scene extends Partial<Omit<ObservedPreload, 'nodes' | 'pins'>> {
  nodes?: Record<string, NodeShape>;
  /** Nodes that keep the files of the Dataset `d` for this preload. */
  pinned?: string[];
}

/** The operator's view of nodes and of the Dataset `d`. */
export function observed({ nodes = {}, pinned = [], ...others }: Scene): ObservedPreload {
  const shapes = Object.entries(nodes);
  const withAgent = shapes.filter(([, { agent = true }]) => agent);
  const residency = withAgent.map(([node, { resident = 0 }]): DatasetResidency => {
    return {
      node,
      residentBytes: BigInt(resident),
      memoryBytes: 0n,
      completeFiles: 0n,
      pinned: false,
      dataPath: '',
      reason: '',
      sourcesAside: [],
    };
  });
  const statuses = withAgent.map(
    ([node, { budget = 10_000, pinned: pinnedBytes = 0, ready = true, features = ['memory-ready'], limits }]) =>
      NodeStatus.fromPartial({
        node,
        ready,
        apiFeatures: features,
        budgetBytes: BigInt(budget),
        pinnedBytes: BigInt(pinnedBytes),
        capabilities: limits === undefined ? [] : [{ name: 'limits', ready: true, reason: limits }],
      }),
  );
  const dataset = Dataset.fromPartial({ name: 'ns.d', manifest, bytes: BigInt(size), state: 'Ready', residency });
  const measure: Measure = { kind: 'files', files: 1n, bytes: BigInt(size) };
  return {
    now,
    datasets: [datasetView()],
    clusters: ['main'],
    agents: {
      connected: true,
      nodes: new Map(statuses.map((one) => [one.node, one])),
      datasets: new Map([[dataset.name, dataset]]),
    },
    nodes: shapes.map(([name, { labels = {} }]) => ({ name, labels, ready: true })),
    pods: undefined,
    jobs: [],
    pins: new Map([[`preload/${uid}/${wantedId('ns.d', manifest, [])}`, new Set(pinned)]]),
    pinTroubles: new Map(),
    measures: new Map([[wantedId('ns.d', manifest, []), measure]]),
    unavailableSince: new Map(),
    retryAt: new Map(),
    graceMs: 20_000,
    holdMs: 0,
    ...others,
  };
}

export function datasetView(changes: Partial<ObservedDataset> = {}): ObservedDataset {
  return { name: 'd', registered: 'ns.d', present: { manifest, revision: 'r1' }, trouble: undefined, ...changes };
}

/** A warm job of the preload; by node the state of its part, the bytes that are stored, and more of it. */
export function job(
  preload: CachePreload,
  scene: ObservedPreload,
  parts: Record<string, [state: string, ready?: number, message?: string, more?: Partial<WarmJobNode>]>,
  changes: Partial<WarmJob> = {},
): WarmJob {
  const [wanted] = wantedOf(preload, scene) as [Wanted];
  const request = jobRequest(preload, wanted, Object.keys(parts));
  const nodes = Object.entries(parts).map(([node, [state, ready = 0, message = '', more = {}]]) => {
    const errorCode = state === 'Failed' ? 'Unavailable' : '';
    return { node, state, bytesTotal: BigInt(size), bytesReady: BigInt(ready), message, errorCode, ...more };
  });
  return WarmJob.fromPartial({
    name: request.name,
    dataset: 'ns.d',
    manifest: wanted.manifest,
    state: 'Running',
    createdAt: '2026-05-01T11:59:30Z',
    nodes,
    ...changes,
  } as never);
}
