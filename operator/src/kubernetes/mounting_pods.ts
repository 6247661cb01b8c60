import { listed } from '@hearth/common';
import { type KubernetesClient, kinds, type PersistentVolume, type Pod, podVolumes } from '@hearth/common/kubernetes';
import { driverName } from '@hearth/common/resources';
import { pages } from './listing.ts';

/** Filters by the volume's StorageCluster, undefined without one, and the pod's node. */
type Wanted = (cluster: string | undefined, node: string) => boolean;

/** `NAMESPACE/NAME on NODE` of pods with our volumes, except ended pods, which the kubelet unmounts. */
export async function mountingPods(
  api: Pick<KubernetesClient, 'list'>,
  signal: AbortSignal,
  wanted: Wanted = () => true,
  node?: string,
): Promise<string[]> {
  const claims = await claimsOfOurs(api, signal);
  const mounting: string[] = [];
  const place = node === undefined ? {} : { fieldSelector: `spec.nodeName=${node}` };
  for await (const pods of pages(api, kinds.Pod, place, signal)) {
    for (const pod of pods) if (mounts(pod, claims, wanted)) mounting.push(placeOf(pod));
  }
  return mounting;
}

export function namedPods(pods: readonly string[]): string {
  return listed(pods, { most: 10 });
}

/** By `NAMESPACE/NAME` of the claim. */
async function claimsOfOurs(
  api: Pick<KubernetesClient, 'list'>,
  signal: AbortSignal,
): Promise<Map<string, string | undefined>> {
  const claims = new Map<string, string | undefined>();
  for await (const volumes of pages<PersistentVolume>(api, kinds.PersistentVolume, {}, signal)) {
    for (const { spec } of volumes) {
      if (spec?.csi?.driver !== driverName) continue;
      claims.set(`${spec.claimRef?.namespace}/${spec.claimRef?.name}`, clusterOf(spec.csi.volumeAttributes));
    }
  }
  return claims;
}

function mounts(pod: Pod, claims: ReadonlyMap<string, string | undefined>, wanted: Wanted): boolean {
  const { metadata, spec, status } = pod;
  const node = spec?.nodeName;
  if (!node || status?.phase === 'Succeeded' || status?.phase === 'Failed') return false;
  const inline = (spec.volumes ?? []).some(
    ({ csi }) => csi?.driver === driverName && wanted(clusterOf(csi.volumeAttributes), node),
  );
  if (inline) return true;
  return podVolumes(pod).some((one) => {
    if (one.kind === 'dataset') return false;
    const claim = `${metadata?.namespace}/${one.claim}`;
    return claims.has(claim) && wanted(claims.get(claim), node);
  });
}

function clusterOf(attributes: Record<string, string> | undefined): string | undefined {
  return attributes?.cluster || undefined;
}

const placeOf = ({ metadata, spec }: Pod) => `${metadata?.namespace}/${metadata?.name} on ${spec?.nodeName}`;
