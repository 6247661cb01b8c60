import type { Pod } from '@hearth/common/kubernetes';
import { type Dataset, podVolumes, splitRegisteredName } from '@hearth/common/resources';
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
}

/**
 * Pure. The Datasets behind the volumes of a pod: inline, by claims, and by claims that will be made with the pod. A
 * volume that an administrator made for a Dataset of another namespace counts for nothing: a plan belongs to one
 * namespace.
 */
export function podDatasets(pod: Pick<Pod, 'metadata' | 'spec'>, namespace: string, known: Known): PodDatasets {
  const datasets = new Map<string, Dataset>();
  const missing: Missing[] = [];
  let foreign = false;
  for (const volume of podVolumes(pod, namespace)) {
    const found =
      volume.kind === 'claim' ? claimed(`${namespace}/${volume.claim}`, namespace, known) : volume.dataset?.name;
    if (found === undefined) {
      foreign = true;
      continue;
    }
    if (typeof found !== 'string') {
      missing.push(found);
      continue;
    }
    const key = `${namespace}/${found}`;
    const dataset = known.dataset(key);
    if (dataset === undefined) missing.push({ kind: 'Dataset', key });
    else datasets.set(key, dataset);
  }
  return { datasets: [...datasets.values()], missing, foreign };
}

/** Name of the Dataset behind a claim; undefined: there is none. */
function claimed(key: string, namespace: string, known: Known): string | Missing | undefined {
  const claim = known.claim(key);
  if (claim === undefined) return { kind: 'PersistentVolumeClaim', key };
  if (claim.volume === '') return claim.dataset;
  const volume = known.volume(claim.volume);
  if (volume === undefined) return { kind: 'PersistentVolume', key: claim.volume };
  const dataset = splitRegisteredName(volume.ours?.dataset ?? '');
  return dataset?.namespace === namespace ? dataset.name : undefined;
}
