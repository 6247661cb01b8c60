import { type CachePreload, type Dataset, type Gate, parseDuration } from '@hearth/common/resources';
import { chooseGate, strictest } from './gate_choice.ts';
import type { GatedMember } from './groups.ts';
import type { Known } from './known.ts';
import { type Missing, podDatasets } from './pod_datasets.ts';

/** The wishes of a group's gated pods, all together. */
export interface GroupFacts {
  gate: Gate;
  /** By key, in the order of their names. */
  datasets: ReadonlyMap<string, Dataset>;
  missing: Missing[];
  /** Keys of the Datasets of which a volume keeps to another revision than the present one. */
  former: ReadonlySet<string>;
  /** Names of the pods that mount volumes of other drivers too. */
  foreign: ReadonlySet<string>;
  /** Milliseconds since the epoch: when the first of the pods was made, and when its gate opens at the latest. */
  since: number;
  until: number;
  /** Everything that was looked at, as `kind key`. */
  looked: ReadonlySet<string>;
}

/** Pure, but for what `known` answers. */
export function groupFacts(pods: readonly GatedMember[], known: Known): GroupFacts {
  const looked = new Set<string>();
  const seen: Known = {
    claim: (key) => known.claim(noted(looked, 'PersistentVolumeClaim', key)),
    volume: (name) => known.volume(noted(looked, 'PersistentVolume', name)),
    dataset: (key) => known.dataset(noted(looked, 'Dataset', key)),
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
    until: since + (parseDuration(gate.timeout) ?? 0),
    looked,
  };
}

function noted(looked: Set<string>, kind: Missing['kind'], key: string): string {
  looked.add(`${kind} ${key}`);
  return key;
}

/** The most Datasets that a CachePreload has. */
const maxDatasets = 32;

/** Why no plan can be made for these, as the end of a sentence; undefined: one can. */
export function unplannable({ datasets, former }: Pick<GroupFacts, 'datasets' | 'former'>): string | undefined {
  if (datasets.size > maxDatasets) return `it uses ${datasets.size} Datasets, and a plan has at most ${maxDatasets}`;
  const clusters = new Set([...datasets.values()].flatMap((one) => clusterOf(one) ?? []));
  if (clusters.size > 1) return `its Datasets are of several StorageClusters: ${[...clusters].sort().join(', ')}`;
  const going = [...datasets].find(([, { metadata }]) => metadata.deletionTimestamp !== undefined);
  if (going !== undefined) return `Dataset ${going[0]} is being deleted`;
  const [first] = former;
  return first && `a volume keeps to another revision of Dataset ${first} than the present one, which plans bring`;
}

/** The Datasets of which no agent knows the files yet, as the end of a sentence; empty: there is none. */
export function unready(datasets: ReadonlyMap<string, Dataset>): string {
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

/**
 * True when the reports of a CachePreload are about other revisions or Datasets than its pods will start with, as in a
 * plan made for earlier pods.
 */
export function isOutdated(preload: CachePreload | undefined, datasets: ReadonlyMap<string, Dataset>): boolean {
  const reported = new Map(preload?.status?.revisions?.map(({ dataset, manifest }) => [dataset, manifest]));
  if (reported.size === 0) return false;
  return [...datasets.values()].some(({ metadata, status }) => reported.get(metadata.name) !== status?.manifest);
}

/** StorageCluster of a Dataset; undefined: it is not known yet. */
export function clusterOf({ spec, status }: Dataset): string | undefined {
  return status?.cluster ?? spec.clusterRef?.name;
}
