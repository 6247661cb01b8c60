import { type Pod, podVolumes } from '@hearth/common/kubernetes';

/** A pod on a node that has started nothing yet, and whose volumes name Datasets. */
export interface AwaitingPod {
  namespace: string;
  name: string;
  uid: string;
  /** Names of Datasets of its namespace, by inline volumes, each once. */
  datasets: readonly string[];
}

/** Undefined: the pod waits for no Dataset. Claims have events of their own, and a pod whose claim waits has no node. */
export function awaitingPod(pod: Pod): AwaitingPod | undefined {
  const { metadata, spec, status } = pod;
  if (!spec?.nodeName || status?.phase !== 'Pending' || metadata?.deletionTimestamp !== undefined) return undefined;
  const containers = [...(status.initContainerStatuses ?? []), ...(status.containerStatuses ?? [])];
  if (containers.some(({ state }) => state?.running !== undefined || state?.terminated !== undefined)) return undefined;
  const names = podVolumes(pod).flatMap((one) => (one.kind === 'dataset' ? [one.dataset.name] : []));
  if (names.length === 0) return undefined;
  const { namespace = '', name = '', uid = '' } = metadata ?? {};
  return { namespace, name, uid, datasets: [...new Set(names)].sort() };
}
