import { HearthError } from '@hearth/common';
import type { KubernetesClient } from '@hearth/common/kubernetes';
import { mountingPods, namedPods } from '../kubernetes/index.ts';

/**
 * Refuses with `InUse`, which names them, while pods mount volumes of ours: the kubelet asks the driver to unmount, so
 * without csi-node a pod that is deleted would be Terminating for ever, or go and leave its mount. Changes nothing.
 */
export async function refuseWhileMounted(api: Pick<KubernetesClient, 'list'>, signal: AbortSignal): Promise<void> {
  const mounting = await mountingPods(api, signal);
  if (mounting.length === 0) return;
  throw new HearthError(
    'InUse',
    `refusing to uninstall, because pods mount volumes of Hearth: ${namedPods(mounting)}; ` +
      'delete them and uninstall again. Without csi-node nothing unmounts for them when they are deleted; docs/install.md ' +
      'says how to uninstall all the same (cleanup.force)',
  );
}
