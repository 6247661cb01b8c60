import { HearthError } from '@hearth/common';
import { type KubernetesClient, kinds, type Pod, podVolumes } from '@hearth/common/kubernetes';
import { driverName } from '@hearth/common/resources';
import { pages } from '../kubernetes/index.ts';

/** How many pods a message names. */
const named = 10;

/**
 * Refuses with `InUse`, which names them, while pods mount volumes of ours: the kubelet asks the driver to unmount, so
 * without csi-node a pod that is deleted would be Terminating for ever, or go and leave its mount. Changes nothing.
 */
export async function refuseWhileMounted(api: Pick<KubernetesClient, 'list'>, signal: AbortSignal): Promise<void> {
  const claims = await claimsOfOurs(api, signal);
  const mounting: string[] = [];
  for await (const pods of pages(api, kinds.Pod, {}, signal)) {
    for (const pod of pods) if (mounts(pod, claims)) mounting.push(placeOf(pod));
  }
  if (mounting.length === 0) return;
  const more = mounting.length > named ? ` and ${mounting.length - named} more` : '';
  throw new HearthError(
    'InUse',
    `not uninstalled, because pods mount volumes of Hearth: ${mounting.slice(0, named).join(', ')}${more}; ` +
      'delete them and uninstall again. Without csi-node nothing unmounts for them when they are deleted; docs/install.md ' +
      'says how to uninstall all the same (cleanup.force)',
  );
}

/** 'namespace/name' of the claims that are bound to volumes of ours, those made by hand among them. */
async function claimsOfOurs(api: Pick<KubernetesClient, 'list'>, signal: AbortSignal): Promise<Set<string>> {
  const claims = new Set<string>();
  for await (const volumes of pages(api, kinds.PersistentVolume, {}, signal)) {
    for (const { spec } of volumes) {
      if (spec?.csi?.driver === driverName) claims.add(`${spec.claimRef?.namespace}/${spec.claimRef?.name}`);
    }
  }
  return claims;
}

/** The kubelet unmounts the volumes of pods that have ended by itself, and of those without a node there are none. */
function mounts(pod: Pod, claims: ReadonlySet<string>): boolean {
  const { metadata, spec, status } = pod;
  if (!spec?.nodeName || status?.phase === 'Succeeded' || status?.phase === 'Failed') return false;
  return podVolumes(pod).some((one) => one.kind === 'dataset' || claims.has(`${metadata?.namespace}/${one.claim}`));
}

const placeOf = ({ metadata, spec }: Pod) => `${metadata?.namespace}/${metadata?.name} on ${spec?.nodeName}`;
