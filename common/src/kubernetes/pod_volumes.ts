import { apiGroup, driverName } from '../names.ts';
import type { PersistentVolume, PersistentVolumeClaim, Pod } from './kinds.ts';

/** Namespace and name of a Dataset. */
export interface DatasetName {
  namespace: string;
  name: string;
}

/** A pod volume that may lead to a Dataset; other volumes are left out. */
export type PodVolume =
  /**
   * An inline volume of our driver, in the pod's namespace. `revision`: pinned manifest digest, if any. A client-access
   * volume yields one entry for each Dataset that it names.
   */
  | { volume: string; kind: 'dataset'; dataset: DatasetName; revision?: string }
  /** A claim in the pod's namespace, to be resolved. */
  | { volume: string; kind: 'claim'; claim: string }
  /** A claim created with the pod from this template, known before it exists. */
  | { volume: string; kind: 'template'; claim: string; dataset: DatasetName | undefined };

/** Pure. In the order of the pod's volumes. Not for a pod under admission with generateName. */
export function podVolumes(
  pod: Pick<Pod, 'metadata' | 'spec'>,
  namespace = pod.metadata?.namespace ?? '',
): PodVolume[] {
  return (pod.spec?.volumes ?? []).flatMap((one): PodVolume[] => {
    const volume = one.name;
    if (one.csi?.driver === driverName) {
      const { dataset: name, revision, clientAccess, datasets = '' } = one.csi.volumeAttributes ?? {};
      if (clientAccess === 'true') {
        const names = datasets.split(',').map((part) => part.trim());
        return names.flatMap((each) => (each ? [{ volume, kind: 'dataset', dataset: { namespace, name: each } }] : []));
      }
      if (!name) return [];
      return [{ volume, kind: 'dataset', dataset: { namespace, name }, ...(revision ? { revision } : {}) }];
    }
    if (one.persistentVolumeClaim !== undefined) {
      return [{ volume, kind: 'claim', claim: one.persistentVolumeClaim.claimName }];
    }
    const template = one.ephemeral?.volumeClaimTemplate;
    if (template === undefined) return [];
    const claim = `${pod.metadata?.name ?? ''}-${volume}`;
    return [{ volume, kind: 'template', claim, dataset: claimedDataset({ spec: template.spec }, namespace) }];
  });
}

/**
 * The Dataset of a claim's dataSourceRef, in the claim's namespace; undefined without one. For a claim bound to a
 * volume made by hand, use `datasetOfVolume`.
 */
export function claimedDataset(
  claim: Pick<PersistentVolumeClaim, 'metadata' | 'spec'>,
  namespace = claim.metadata?.namespace ?? '',
): DatasetName | undefined {
  const source = claim.spec?.dataSourceRef;
  if (source?.apiGroup !== apiGroup || source.kind !== 'Dataset' || source.namespace) return undefined;
  return { namespace, name: source.name };
}

/** The Dataset behind a volume of our driver. */
export function datasetOfVolume({ spec }: Pick<PersistentVolume, 'spec'>): DatasetName | undefined {
  if (spec?.csi?.driver !== driverName) return undefined;
  const { datasetNamespace: namespace, dataset: name } = spec.csi.volumeAttributes ?? {};
  return namespace && name ? { namespace, name } : undefined;
}
