import type { Dataset } from '@hearth/common/resources';

/** A volume of the driver and its claim, of which a Dataset may show the files. */
export interface ClaimedScratch {
  /** Of the PersistentVolume, and of the volume at agents. */
  name: string;
  /** 'namespace/name'. */
  claim: string;
  /** The StorageCluster whose agents have the files. */
  cluster: string;
  scratch: boolean;
  phase: string;
  deleting: boolean;
}

export type SourceVolume =
  | { kind: 'found'; name: string; cluster: string }
  | { kind: 'unusable'; reason: 'ClaimNotFound' | 'ClaimUnusable'; message: string };

/** The key of the claim that the Dataset's source names, which lies in the Dataset's namespace. */
export function claimOfSource({ metadata, spec }: Dataset): string | undefined {
  const { volume } = spec.source;
  return volume === undefined ? undefined : `${metadata.namespace}/${volume.claimName}`;
}

/**
 * Pure. The volume behind the claim of a Dataset's source; undefined for other sources. The claim lies in the Dataset's
 * namespace, so nobody reads files of another namespace by the name of their volume.
 */
export function sourceVolume(dataset: Dataset, volumes: readonly ClaimedScratch[]): SourceVolume | undefined {
  const claim = claimOfSource(dataset);
  if (claim === undefined) return undefined;
  const found = volumes.find((one) => one.claim === claim && one.phase === 'Bound' && !one.deleting);
  if (found === undefined) {
    const message = `waits for the claim ${claim} to be bound: kubectl describe pvc says why it is not`;
    return { kind: 'unusable', reason: 'ClaimNotFound', message };
  }
  if (found.scratch) return { kind: 'found', name: found.name, cluster: found.cluster };
  const message = `the claim ${claim} shows a Dataset itself; name a claim of a StorageClass of scratch volumes`;
  return { kind: 'unusable', reason: 'ClaimUnusable', message };
}
