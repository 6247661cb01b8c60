import type { CoreEvent, DatasetName, Pod } from '@hearth/common/kubernetes';
import {
  type CachePreload,
  type Dataset,
  type Gate,
  type NodeCache,
  type PreloadedNode,
  parseDuration,
  preloadGateName,
  type ReadyWhen,
} from '@hearth/common/resources';
import { formatBytes } from '../format/quantity.ts';
import { keyOf, type PodFacts } from './facts.ts';

export type PodState =
  /** Held by Hearth's scheduling gate. */
  | 'Gated'
  /** Held only by gates of other controllers. */
  | 'GatedByOthers'
  /** Not assigned to a node yet. */
  | 'Unscheduled'
  /** Assigned to a node, without a running container. */
  | 'Starting'
  | 'Running'
  | 'Ended';

/** Explains the state of a pod and the location of its bytes. Sizes are bytes, times seconds. */
export interface Explanation {
  namespace: string;
  pod: string;
  state: PodState;
  node: string | undefined;
  ageSeconds: number;
  /** The event that the pod waits for, as a sentence; empty: none known to Hearth. */
  waitsFor: string;
  /** Estimated time until the gate opens; undefined: unknown, or no gate. */
  startsInSeconds: number | undefined;
  /** Time until the gate opens at the latest. */
  opensInSeconds: number | undefined;
  datasets: ExplainedDataset[];
  nodes: ExplainedNode[];
  plan: ExplainedPlan | undefined;
  events: { reason: string; message: string; ageSeconds: number }[];
  /** Next steps for the user. */
  advice: string[];
  /** Facts that the user may not read. */
  unseen: string[];
}

export interface ExplainedDataset {
  dataset: string;
  volumes: string[];
  ready: boolean;
  /** Reason why the Dataset is not Ready. */
  message: string;
  revision: string;
  bytes: number;
  gate: Gate['mode'];
}

export interface ExplainedNode {
  node: string;
  /** `pod`: the pod runs there; `planned`: the pod's plan has chosen the node. */
  role: 'pod' | 'planned' | '';
  residentBytes: number;
  /** Bytes of files that are whole in the node's memory, where pods read them. */
  memoryBytes: number;
  /** Bytes stored or in memory on their way to disk, from the plan; undefined: the node is in no plan. */
  bytesInMemory: number | undefined;
  /** Times at which all bytes of the plan were in memory, and stored, RFC 3339; undefined: not yet, or unknown. */
  inMemoryAt: string | undefined;
  storedAt: string | undefined;
  /** Seconds between the request and these times. */
  secondsToMemory: number | undefined;
  secondsToStored: number | undefined;
  missingBytes: number;
  percent: number;
  /** Data path of the pod if it starts now. */
  dataPath: 'view' | 'fuse' | 'none';
  message: string;
}

export interface ExplainedPlan {
  name: string;
  phase: string;
  percent: number;
  bytesReady: number;
  bytesInMemory: number;
  bytesTotal: number;
  /** The stage that the pods wait for. */
  readyWhen: ReadyWhen;
  bytesPerSecond: number;
  secondsLeft: number | undefined;
  /** Reason for the choice of nodes. */
  reason: string;
}

/** Revisions with more files are not linked as a tree. */
const maxViewFiles = 100_000;
const maxEvents = 6;

/** Pure. `now`: milliseconds since the epoch. */
export function explain(facts: PodFacts, now: number): Explanation {
  const { pod, preload, unseen } = facts;
  const ageSeconds = secondsSince(pod.metadata?.creationTimestamp, now);
  const state = stateOf(pod);
  const gated = state === 'Gated';
  const timeoutMs = parseDuration(preload?.spec.placement.gatedPods?.gate.timeout ?? '');
  return {
    namespace: pod.metadata?.namespace ?? '',
    pod: pod.metadata?.name ?? '',
    state,
    node: pod.spec?.nodeName,
    ageSeconds,
    waitsFor: waitsFor(facts, state),
    startsInSeconds: gated ? secondsLeft(preload) : undefined,
    opensInSeconds: gated && timeoutMs !== undefined ? Math.max(0, timeoutMs / 1000 - ageSeconds) : undefined,
    datasets: explainDatasets(facts),
    nodes: explainNodes(facts),
    plan: preload === undefined ? undefined : explainPlan(preload),
    events: facts.events.slice(-maxEvents).map((event) => explainEvent(event, now)),
    advice: adviceOn(facts, state),
    unseen,
  };
}

/** The estimate covers storing; it says nothing about pods that start earlier. */
function secondsLeft(preload: CachePreload | undefined): number | undefined {
  return readyWhenOf(preload) === 'Memory' ? undefined : preload?.status?.secondsLeft;
}

/** Objects of the previous release lack the field. */
function readyWhenOf(preload: CachePreload | undefined): ReadyWhen {
  return preload?.spec.placement.gatedPods?.gate.readyWhen ?? 'Stored';
}

function stateOf({ spec, status }: Pod): PodState {
  const gates = (spec?.schedulingGates ?? []).map(({ name }) => name);
  if (status?.phase === 'Succeeded' || status?.phase === 'Failed') return 'Ended';
  if (gates.includes(preloadGateName)) return 'Gated';
  if (gates.length > 0) return 'GatedByOthers';
  if (!spec?.nodeName) return 'Unscheduled';
  return status?.phase === 'Running' ? 'Running' : 'Starting';
}

function waitsFor({ pod, volumes, preload, datasets, withoutAgent }: PodFacts, state: PodState): string {
  if (state === 'Running' || state === 'Ended') return '';
  if (state === 'GatedByOthers') {
    return `gates of others: ${(pod.spec?.schedulingGates ?? []).map(({ name }) => name).join(', ')}`;
  }
  if (state === 'Unscheduled') {
    const scheduled = pod.status?.conditions?.find(({ type }) => type === 'PodScheduled');
    return scheduled?.message ?? 'the scheduler';
  }
  const unknown = volumes.find((one) => one.unknown !== '');
  if (unknown !== undefined) return unknown.unknown;
  const absent = volumes.find(({ dataset }) => dataset !== undefined && datasets.get(keyOf(dataset)) === undefined);
  if (absent?.dataset !== undefined) return `Dataset ${keyOf(absent.dataset)}, which does not exist`;
  const unready = [...datasets.values()].find((dataset) => readyOf(dataset)?.status !== 'True');
  if (unready !== undefined) {
    return `Dataset ${keyOf(nameOf(unready))} to be Ready: ${readyOf(unready)?.message ?? 'the operator has not observed it yet'}`;
  }
  if (state === 'Starting' && withoutAgent)
    return `an agent on ${pod.spec?.nodeName}: no StorageCluster selects that node`;
  if (state === 'Starting') return `the kubelet of ${pod.spec?.nodeName} to start its containers`;
  if (preload === undefined) return 'a plan, which the operator makes within a second';
  return preload.status?.waitingFor ?? 'the nodes of its plan';
}

function explainDatasets({ volumes, datasets }: PodFacts): ExplainedDataset[] {
  const names = new Map<string, string[]>();
  for (const { dataset, volume } of volumes) {
    if (dataset === undefined) continue;
    const key = keyOf(dataset);
    names.set(key, [...(names.get(key) ?? []), volume]);
  }
  return [...names].map(([key, of]) => {
    const found = datasets.get(key);
    const ready = found === undefined ? undefined : readyOf(found);
    return {
      dataset: key,
      volumes: of,
      ready: ready?.status === 'True',
      message:
        found === undefined ? 'the Dataset does not exist' : ready?.status === 'True' ? '' : (ready?.message ?? ''),
      revision: found?.status?.revision ?? '',
      bytes: found?.status?.bytes ?? 0,
      gate: found?.spec.gate?.mode ?? 'Off',
    };
  });
}

/** The pod's node, its planned nodes, and nodes that hold bytes of its Datasets; most bytes first. */
function explainNodes({ pod, datasets, preload, nodeCache, withoutAgent }: PodFacts): ExplainedNode[] {
  const used = [...datasets.values()];
  const wanted = used.reduce((sum, { status }) => sum + (status?.bytes ?? 0), 0);
  const files = used.reduce((most, { status }) => Math.max(most, status?.files ?? 0), 0);
  const resident = new Map<string, number>();
  const inMemory = new Map<string, number>();
  for (const { status } of used) {
    for (const { node, residentBytes, memoryBytes = 0 } of status?.residency ?? []) {
      resident.set(node, (resident.get(node) ?? 0) + residentBytes);
      inMemory.set(node, (inMemory.get(node) ?? 0) + memoryBytes);
    }
  }
  const own = pod.spec?.nodeName;
  const planned = new Map((preload?.status?.nodes ?? []).map((row) => [row.name, row]));
  const names = new Set([...(own === undefined ? [] : [own]), ...planned.keys(), ...resident.keys()]);
  if (wanted === 0) return [];
  return [...names]
    .map((node): ExplainedNode => {
      const residentBytes = Math.min(resident.get(node) ?? 0, wanted);
      const complete = residentBytes === wanted;
      const row = planned.get(node);
      const memoryBytes = Math.min(inMemory.get(node) ?? 0, residentBytes);
      const linked = complete && files <= maxViewFiles && memoryBytes === 0;
      const unserved = withoutAgent && node === own;
      return {
        node,
        role: node === own ? 'pod' : row === undefined ? '' : 'planned',
        residentBytes,
        memoryBytes,
        bytesInMemory: row?.bytesInMemory,
        inMemoryAt: row?.inMemoryAt,
        storedAt: row?.storedAt,
        secondsToMemory: row?.secondsToMemory,
        secondsToStored: row?.secondsToStored,
        missingBytes: wanted - residentBytes,
        percent: Math.floor((residentBytes / wanted) * 100),
        dataPath: unserved ? 'none' : linked ? 'view' : 'fuse',
        message: unserved
          ? noAgent
          : pathMessage({ complete, files, memoryBytes }, row, node === own ? nodeCache : undefined),
      };
    })
    .sort((a, b) => rank(a) - rank(b) || b.residentBytes - a.residentBytes || (a.node < b.node ? -1 : 1));
}

const noAgent = 'no StorageCluster selects this node, so volumes cannot be mounted here';

function rank({ role }: ExplainedNode): number {
  return role === 'pod' ? 0 : role === 'planned' ? 1 : 2;
}

function pathMessage(
  { complete, files, memoryBytes }: { complete: boolean; files: number; memoryBytes: number },
  planned: PreloadedNode | undefined,
  cache: NodeCache | undefined,
): string {
  if (planned !== undefined && planned.message !== '') return planned.message;
  if (complete && memoryBytes === 0 && files <= maxViewFiles) return '';
  const passthrough = cache?.status?.capabilities?.find(({ name }) => name === 'passthrough');
  if (passthrough?.ready === false) return `every read goes through the agent: ${passthrough.reason}`;
  if (!complete && planned?.inMemoryAt !== undefined) {
    return 'every byte is in memory: reads go through FUSE until all is stored';
  }
  if (complete && memoryBytes > 0)
    return `${formatBytes(memoryBytes)} are read from the node's memory, the rest from its disks`;
  if (complete) return `Hearth links no tree of more than ${maxViewFiles} files; reads are native all the same`;
  return 'resident files are read natively, missing files through the agent';
}

function explainPlan(preload: CachePreload): ExplainedPlan {
  const { metadata, status } = preload;
  return {
    name: metadata.name,
    phase: status?.phase ?? 'Pending',
    percent: status?.percent ?? 0,
    bytesReady: status?.bytesReady ?? 0,
    bytesInMemory: status?.bytesInMemory ?? status?.bytesReady ?? 0,
    bytesTotal: status?.bytesTotal ?? 0,
    readyWhen: readyWhenOf(preload),
    bytesPerSecond: status?.bytesPerSecond ?? 0,
    secondsLeft: status?.secondsLeft,
    reason: status?.pods?.reason ?? '',
  };
}

function explainEvent(event: CoreEvent, now: number) {
  const time = event.lastTimestamp ?? event.eventTime ?? event.metadata?.creationTimestamp;
  return { reason: event.reason ?? '', message: event.message ?? '', ageSeconds: secondsSince(time, now) };
}

function adviceOn({ pod, volumes, datasets, preload, withoutAgent }: PodFacts, state: PodState): string[] {
  const name = `${pod.metadata?.namespace} ${pod.metadata?.name}`;
  if (volumes.length === 0) {
    return ['the pod has no volume of a Dataset, so Hearth neither gates nor serves it'];
  }
  if (state === 'Gated' && preload?.status?.phase === 'Failed') {
    return [
      `see why: kubectl -n ${pod.metadata?.namespace} describe cachepreload ${preload.metadata.name}; the pod starts cold when its gate times out`,
    ];
  }
  if (state === 'Starting' && withoutAgent) {
    return [
      `its events name the label that the node lacks: kubectl describe pod -n ${name}. The nodeSelector csi.hearth.storage/agent=true keeps a pod on nodes with agents`,
    ];
  }
  if (state === 'Unscheduled' || state === 'Starting')
    return [`for more see the events of the pod: kubectl describe pod -n ${name}`];
  const ungated =
    state === 'Running' && [...datasets.values()].every(({ spec }) => (spec.gate?.mode ?? 'Off') === 'Off');
  const warm = [...datasets.values()].every(({ status }) => (status?.percent ?? 0) === 100);
  return ungated && !warm ? ['spec.gate of a Dataset would have held the pod until its bytes were on a node'] : [];
}

function readyOf({ status }: Dataset) {
  return status?.conditions?.find(({ type }) => type === 'Ready');
}

function nameOf({ metadata }: Dataset): DatasetName {
  return { namespace: metadata.namespace ?? '', name: metadata.name };
}

function secondsSince(time: string | undefined, now: number): number {
  return time === undefined ? 0 : Math.max(0, Math.round((now - Date.parse(time)) / 1000));
}
