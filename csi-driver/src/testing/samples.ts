import type { PublishedVolume } from '@hearth/common/generated/hearth/v1/control.ts';
import {
  VolumeCapability_AccessMode_Mode as Mode,
  NodePublishVolumeRequest,
  type VolumeCapability,
} from '../generated/csi/csi.ts';

export const manifest = (digit: string): string => digit.repeat(64);

export function capability(mode: Mode = Mode.MULTI_NODE_READER_ONLY, mountFlags: string[] = []): VolumeCapability {
  return {
    accessType: { $case: 'mount', value: { fsType: '', mountFlags, volumeMountGroup: '' } },
    accessMode: { mode },
  };
}

export const inlineContext = {
  dataset: 'model',
  'csi.storage.k8s.io/ephemeral': 'true',
  'csi.storage.k8s.io/pod.namespace': 'team',
  'csi.storage.k8s.io/pod.name': 'reader-0',
  'csi.storage.k8s.io/pod.uid': '6a0e',
  'csi.storage.k8s.io/serviceAccount.name': 'default',
};

export const volumeContext = { cluster: 'c', datasetNamespace: 'team', dataset: 'model' };

export const writableContext = { cluster: 'c', volume: 'pvc-1' };

export function publishRequest(
  targetPath: string,
  changes: Partial<NodePublishVolumeRequest> = {},
): NodePublishVolumeRequest {
  return {
    ...NodePublishVolumeRequest.fromPartial({}),
    volumeId: 'pvc-1',
    targetPath,
    volumeCapability: capability(),
    volumeContext,
    ...changes,
  };
}

export function published(path: string, digest = manifest('a')): PublishedVolume {
  return { path, manifest: digest, dataPath: 'view', reason: '', bytes: 12_345_678_901_234n, files: 7n };
}
