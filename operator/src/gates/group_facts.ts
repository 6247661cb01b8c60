import type { ErrorCode } from '@hearth/common';
import { type CachePreload, type Dataset, type Gate, parseDuration } from '@hearth/common/resources';
import type { AwaitedReason } from '../dataset/index.ts';
import { chooseGate, strictest } from './gate_choice.ts';
import type { GatedMember } from './groups.ts';
import { type Known, type Missing, podDatasets } from './pod_datasets.ts';

export interface GroupFacts {
  gate: Gate;
  datasets: ReadonlyMap<string, Dataset>;
  missing: Missing[];
  /** Keys of Datasets that some volume mounts in a revision other than the present one. */
  former: ReadonlySet<string>;
  foreign: ReadonlySet<string>;
  /** Creation of the oldest pod, milliseconds since the epoch. */
  since: number;
  /** Time that the gate gives the bytes. */
  timeoutMs: number;
  /** Every object that was read, as `kind key`. */
  objects: ReadonlySet<string>;
}

export function groupFacts(pods: readonly GatedMember[], known: Known): GroupFacts {
  const objects = new Set<string>();
  const recorded = (kind: Missing['kind'], key: string) => {
    objects.add(`${kind} ${key}`);
    return key;
  };
  const seen: Known = {
    claim: (key) => known.claim(recorded('PersistentVolumeClaim', key)),
    volume: (name) => known.volume(recorded('PersistentVolume', name)),
    dataset: (key) => known.dataset(recorded('Dataset', key)),
  };
  const datasets = new Map<string, Dataset>();
  const missing = new Map<string, Missing>();
  const former = new Set<string>();
  const foreign = new Set<string>();
  const gates: Gate[] = [];
  for (const { gated, namespace, name } of pods) {
    const found = podDatasets(gated, namespace, seen);
    for (const dataset of found.datasets) datasets.set(`${namespace}/${dataset.metadata.name}`, dataset);
    for (const one of found.missing) missing.set(`${one.kind} ${one.key}`, one);
    for (const one of found.former) former.add(`${namespace}/${one}`);
    if (found.foreign || found.missing.length > 0) foreign.add(name);
    gates.push(chooseGate(found.datasets, gated.metadata?.annotations ?? {}).gate);
  }
  const gate = strictest(gates);
  const since = Math.min(...pods.map(({ createdAt }) => createdAt));
  return {
    gate,
    datasets: new Map([...datasets].sort(([a], [b]) => (a < b ? -1 : 1))),
    missing: [...missing.values()],
    former,
    foreign,
    since,
    timeoutMs: parseDuration(gate.timeout) ?? 0,
    objects,
  };
}

/** The limit of the CRD. */
const maxDatasets = 32;

/** Why the planner cannot plan these Datasets, as the end of a sentence; undefined when it can. */
export function whyUnplannable({ datasets, former }: Pick<GroupFacts, 'datasets' | 'former'>): string | undefined {
  if (datasets.size > maxDatasets) return `it uses ${datasets.size} Datasets, and a plan has at most ${maxDatasets}`;
  const clusters = new Set([...datasets.values()].flatMap((one) => clusterOf(one) ?? []));
  if (clusters.size > 1) return `its Datasets are of several StorageClusters: ${[...clusters].sort().join(', ')}`;
  const going = [...datasets].find(([, { metadata }]) => metadata.deletionTimestamp !== undefined);
  if (going !== undefined) return `Dataset ${going[0]} is being deleted`;
  const [first] = former;
  return first && `a volume keeps to another revision of Dataset ${first} than the present one, which plans bring`;
}

/** The Datasets whose files no agent knows yet, as the end of a sentence; empty when there is none. */
export function describeUnready(datasets: ReadonlyMap<string, Dataset>): string {
  const waiting = [...datasets].filter(
    ([, { status }]) => status?.manifest === undefined || status.cluster === undefined,
  );
  return waiting
    .map(([key, { status }]) => {
      const why = status?.conditions?.find(({ type }) => type === 'Ready')?.message;
      return `Dataset ${key} is not ready${why === undefined ? '' : `: ${why}`}`;
    })
    .join('; ');
}

/** Reasons of a Dataset that only a person can remove: a refusal, or what its origin says of the spec. */
const hopeless: ReadonlySet<string> = new Set<ErrorCode | AwaitedReason>([
  'ClusterAmbiguous',
  'ClusterChanged',
  'DirectoryNotAllowed',
  'SecretForbidden',
  'SecretKeyMissing',
  'InvalidArgument',
  'NotFound',
  'PermissionDenied',
  'Unauthenticated',
  'Unsupported',
]);

/** Why a Dataset cannot become ready by waiting, as the end of a sentence; undefined when all can. */
export function whyHopeless(datasets: ReadonlyMap<string, Dataset>): string | undefined {
  for (const [key, { metadata, status }] of datasets) {
    const ready = status?.conditions?.find(({ type }) => type === 'Ready');
    if (ready?.status !== 'False' || ready.observedGeneration !== metadata.generation) continue;
    if (hopeless.has(ready.reason)) return `Dataset ${key} cannot become ready: ${ready.message}`;
  }
  return undefined;
}

/** True when the status describes other revisions or Datasets than the pods will mount. */
export function isOutdated(preload: CachePreload | undefined, datasets: ReadonlyMap<string, Dataset>): boolean {
  const reported = new Map(preload?.status?.revisions?.map(({ dataset, manifest }) => [dataset, manifest]));
  if (reported.size === 0) return false;
  return [...datasets.values()].some(({ metadata, status }) => reported.get(metadata.name) !== status?.manifest);
}

export function clusterOf({ spec, status }: Dataset): string | undefined {
  return status?.cluster ?? spec.clusterRef?.name;
}
