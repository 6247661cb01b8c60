import { type Pod, type PodVolume, podVolumes } from '@hearth/common/kubernetes';
import { type Dataset, splitRegisteredName } from '@hearth/common/resources';
import type { Known } from './known.ts';

/** An object that a pod needs and that is not known. The key is that of its reflector. */
export interface Missing {
  kind: 'PersistentVolumeClaim' | 'PersistentVolume' | 'Dataset';
  key: string;
}

export interface PodDatasets {
  /** Each once, in the order of the pod's volumes. All of the pod's namespace. */
  datasets: Dataset[];
  /** Without these it is not known which Datasets the pod uses, or how. */
  missing: Missing[];
  /** The pod also mounts claims that lead to no Dataset. */
  foreign: boolean;
  /** Names of those of which a volume keeps to another revision than the present one. */
  former: string[];
}

/** Behind a volume: a Dataset of the pod's namespace. `revision` empty: its present one. */
interface Lead {
  name: string;
  revision: string;
}

/**
 * Pure. The Datasets behind the volumes of a pod: inline, by claims, and by claims that will be made with the pod. A
 * volume that an administrator made for a Dataset of another namespace counts for nothing: a plan belongs to one
 * namespace.
 */
export function podDatasets(pod: Pick<Pod, 'metadata' | 'spec'>, namespace: string, known: Known): PodDatasets {
  const datasets = new Map<string, Dataset>();
  const missing: Missing[] = [];
  const former = new Set<string>();
  let foreign = false;
  for (const volume of podVolumes(pod, namespace)) {
    const found = behind(volume, namespace, known);
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

function behind(volume: PodVolume, namespace: string, known: Known): Lead | Missing | undefined {
  if (volume.kind === 'claim') return claimed(`${namespace}/${volume.claim}`, namespace, known);
  const revision = volume.kind === 'dataset' ? volume.revision : undefined;
  return volume.dataset && { name: volume.dataset.name, revision: revision ?? '' };
}

/** Undefined: no Dataset of the namespace is behind the claim. */
function claimed(key: string, namespace: string, known: Known): Lead | Missing | undefined {
  const claim = known.claim(key);
  if (claim === undefined) return { kind: 'PersistentVolumeClaim', key };
  if (claim.volume === '') return claim.dataset === undefined ? undefined : { name: claim.dataset, revision: '' };
  const volume = known.volume(claim.volume);
  if (volume === undefined) return { kind: 'PersistentVolume', key: claim.volume };
  const dataset = splitRegisteredName(volume.ours?.dataset ?? '');
  if (dataset?.namespace !== namespace) return undefined;
  return { name: dataset.name, revision: volume.ours?.revision ?? '' };
}
