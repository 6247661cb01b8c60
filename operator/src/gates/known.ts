import { claimedDataset, type PersistentVolume, type PersistentVolumeClaim } from '@hearth/common/kubernetes';
import type { Dataset } from '@hearth/common/resources';
import { type PendingClaim, pendingClaim, type VolumeView, volumeView } from '../provisioner/index.ts';

/** The kept part of every claim. */
export interface ClaimView {
  /** While it has no volume. */
  pending: PendingClaim | undefined;
  /** Name of its volume; '' as long as it has none. */
  volume: string;
  /** Name of the Dataset of its own namespace that it asks for. */
  dataset: string | undefined;
}

/** The projection of the reflector. */
export function claimView(claim: PersistentVolumeClaim): ClaimView {
  return {
    pending: pendingClaim(claim),
    volume: claim.spec?.volumeName ?? '',
    dataset: claimedDataset(claim)?.name,
  };
}

/** The kept part of every volume: volumes of other drivers are only known to exist. */
export interface VolumeFacts {
  ours: VolumeView | undefined;
}

const ofOthers: VolumeFacts = Object.freeze({ ours: undefined });

/** The projection of the reflector. */
export function volumeFacts(volume: PersistentVolume): VolumeFacts {
  const ours = volumeView(volume);
  return ours === undefined ? ofOthers : { ours };
}

/** The objects between a pod and its Datasets, as far as they are known; undefined: there may be none. */
export interface Known {
  /** By 'namespace/name'. */
  claim(key: string): ClaimView | undefined;
  volume(name: string): VolumeFacts | undefined;
  /** By 'namespace/name'. */
  dataset(key: string): Dataset | undefined;
}
