import {
  claimedDataset,
  type PersistentVolume,
  type PersistentVolumeClaim,
  type Pod,
  type PodVolume,
  podVolumes,
} from '@hearth/common/kubernetes';
import { type Dataset, splitRegisteredName } from '@hearth/common/resources';
import {
  type GrowingClaim,
  growingClaim,
  type PendingClaim,
  pendingClaim,
  type VolumeView,
  volumeView,
} from '../provisioner/index.ts';

/** An unknown object that a pod needs. The key is that of its reflector. */
export interface Missing {
  kind: 'PersistentVolumeClaim' | 'PersistentVolume' | 'Dataset';
  key: string;
}

export interface PodDatasets {
  /** Unique, in the order of the pod's volumes, of the pod's namespace. */
  datasets: Dataset[];
  missing: Missing[];
  /** True when the pod also mounts claims without a Dataset. */
  foreign: boolean;
  /** Datasets that some volume mounts in a revision other than the present one. */
  former: string[];
}

/** A Dataset of the pod's namespace. An empty revision is the present one. */
type DatasetReference = { name: string; revision: string };

/** Pure. Ignores Datasets of other namespaces, since a plan belongs to one namespace. */
export function podDatasets(pod: Pick<Pod, 'metadata' | 'spec'>, namespace: string, known: Known): PodDatasets {
  const datasets = new Map<string, Dataset>();
  const missing: Missing[] = [];
  const former = new Set<string>();
  let foreign = false;
  for (const volume of podVolumes(pod, namespace)) {
    const found = datasetOfVolume(volume, namespace, known);
    if (found === undefined) {
      foreign = true;
      continue;
    }
    if ('kind' in found) {
      missing.push(found);
      continue;
    }
    const key = `${namespace}/${found.name}`;
    const dataset = known.dataset(key);
    if (dataset === undefined) {
      missing.push({ kind: 'Dataset', key });
      continue;
    }
    datasets.set(key, dataset);
    if (found.revision !== '' && found.revision !== dataset.status?.manifest) former.add(found.name);
  }
  return { datasets: [...datasets.values()], missing, foreign, former: [...former] };
}

function datasetOfVolume(volume: PodVolume, namespace: string, known: Known): DatasetReference | Missing | undefined {
  if (volume.kind === 'claim') return datasetOfClaim(`${namespace}/${volume.claim}`, namespace, known);
  const revision = volume.kind === 'dataset' ? volume.revision : undefined;
  return volume.dataset && { name: volume.dataset.name, revision: revision ?? '' };
}

function datasetOfClaim(key: string, namespace: string, known: Known): DatasetReference | Missing | undefined {
  const claim = known.claim(key);
  if (claim === undefined) return { kind: 'PersistentVolumeClaim', key };
  if (claim.volume === '') return claim.dataset === undefined ? undefined : { name: claim.dataset, revision: '' };
  const volume = known.volume(claim.volume);
  if (volume === undefined) return { kind: 'PersistentVolume', key: claim.volume };
  const dataset = splitRegisteredName(volume.ours?.dataset ?? '');
  if (dataset?.namespace !== namespace) return undefined;
  return { name: dataset.name, revision: volume.ours?.revision ?? '' };
}

export interface ClaimView {
  pending: PendingClaim | undefined;
  growing?: GrowingClaim | undefined;
  volume: string;
  dataset: string | undefined;
}

export function claimView(claim: PersistentVolumeClaim): ClaimView {
  return {
    pending: pendingClaim(claim),
    growing: growingClaim(claim),
    volume: claim.spec?.volumeName ?? '',
    dataset: claimedDataset(claim)?.name,
  };
}

/** Of volumes of other drivers only the existence counts. */
export type VolumeFacts = { ours: VolumeView | undefined };

const ofOthers: VolumeFacts = Object.freeze({ ours: undefined });

export function volumeFacts(volume: PersistentVolume): VolumeFacts {
  const ours = volumeView(volume);
  return ours === undefined ? ofOthers : { ours };
}

/** Lookups of the objects between a pod and its Datasets; undefined may only mean unknown. */
export interface Known {
  /** By 'namespace/name'. */
  claim(key: string): ClaimView | undefined;
  volume(name: string): VolumeFacts | undefined;
  /** By 'namespace/name'. */
  dataset(key: string): Dataset | undefined;
}
