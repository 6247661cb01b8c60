import { apiGroup, driverName } from '../names.ts';
import type { PersistentVolume, PersistentVolumeClaim, Pod } from './kinds.ts';

/** A Dataset by its place. */
export interface DatasetName {
  namespace: string;
  name: string;
}

/** Where a volume of a pod leads. Volumes that cannot lead to a Dataset are none of these. */
export type PodVolume =
  /**
   * An inline volume of ours: always of the pod's own namespace. `revision`: digest of the manifest that it keeps to, if any.
   * A volume of client access is one for each Dataset that it names.
   */
  | { volume: string; kind: 'dataset'; dataset: DatasetName; revision?: string }
  /** A claim, of the pod's namespace; what it stands for has to be looked up. */
  | { volume: string; kind: 'claim'; claim: string }
  /** A claim that is made with the pod, from this template: known before it is there. */
  | { volume: string; kind: 'template'; claim: string; dataset: DatasetName | undefined };

/** Pure. In the order of the pod's volumes. Not for a pod that is being created by a name that is yet to be made. */
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
 * The Dataset that a claim asks for by its dataSourceRef, which is of the claim's namespace; undefined when it asks for
 * none. A claim that is bound to a volume made by hand says nothing: then the volume says it.
 */
export function claimedDataset(
  claim: Pick<PersistentVolumeClaim, 'metadata' | 'spec'>,
  namespace = claim.metadata?.namespace ?? '',
): DatasetName | undefined {
  const source = claim.spec?.dataSourceRef;
  if (source?.apiGroup !== apiGroup || source.kind !== 'Dataset' || source.namespace) return undefined;
  return { namespace, name: source.name };
}

/** The Dataset behind a volume of ours. */
export function datasetOfVolume({ spec }: Pick<PersistentVolume, 'spec'>): DatasetName | undefined {
  if (spec?.csi?.driver !== driverName) return undefined;
  const { datasetNamespace: namespace, dataset: name } = spec.csi.volumeAttributes ?? {};
  return namespace && name ? { namespace, name } : undefined;
}
