import { HearthError } from '@hearth/common';
import {
  type CoreEvent,
  claimedDataset,
  type DatasetName,
  datasetOfVolume,
  type KubernetesClient,
  type KubernetesObject,
  kinds,
  type Pod,
  podVolumes,
  type ResourceType,
} from '@hearth/common/kubernetes';
import { type CachePreload, type Dataset, type NodeCache, preloadAnnotation } from '@hearth/common/resources';
import { PermittedReads } from './permitted_reads.ts';

/** A volume of the pod that leads to a Dataset, or may do so once its claim exists. */
export interface VolumeFacts {
  volume: string;
  /** Undefined: no claim involved. */
  claim: string | undefined;
  /** Undefined: the claim does not exist yet, or the user may not read its volume. */
  dataset: DatasetName | undefined;
  /** Reason why `dataset` is unknown. */
  unknown: string;
}

/** Everything in Kubernetes about a pod and its Hearth volumes. */
export interface PodFacts {
  pod: Pod;
  volumes: VolumeFacts[];
  /** By 'namespace/name'; Datasets that do not exist are absent. */
  datasets: Map<string, Dataset>;
  /** The pod's plan. */
  preload: CachePreload | undefined;
  /** NodeCache of the pod's node; undefined: none exists, or the user may not read it. */
  nodeCache: NodeCache | undefined;
  /** The pod's node has no NodeCache: no StorageCluster runs an agent there. */
  withoutAgent: boolean;
  /** Events of the pod, oldest first. */
  events: CoreEvent[];
  /** Sentences about objects that the user may not read; the command shows the rest. */
  unseen: string[];
}

/**
 * Reads with the rights of the kubeconfig's user, in at most three rounds. Throws `NotFound` when the pod does not
 * exist.
 */
export async function podFacts(
  api: Pick<KubernetesClient, 'get' | 'list'>,
  namespace: string,
  name: string,
  signal: AbortSignal,
  listed?: Pod,
): Promise<PodFacts> {
  const pod = listed ?? (await api.get(kinds.Pod, name, namespace, signal));
  if (pod === undefined) {
    throw new HearthError('NotFound', `there is no pod ${namespace}/${name}; give its namespace with -n`);
  }
  const reader = new Reader(api, signal);
  const preloadName = pod.metadata?.annotations?.[preloadAnnotation];
  const nodeName = pod.spec?.nodeName;
  const [volumes, preload, nodeCache, events] = await Promise.all([
    reader.volumes(pod, namespace),
    preloadName === undefined ? undefined : reader.get(kinds.CachePreload, preloadName, namespace),
    nodeName === undefined ? undefined : reader.get(kinds.NodeCache, nodeName),
    reader.events(pod, namespace),
  ]);
  const names = new Map(volumes.flatMap(({ dataset }) => (dataset === undefined ? [] : [[keyOf(dataset), dataset]])));
  const found = await Promise.all(
    [...names].map(async ([key, one]) => [key, await reader.get(kinds.Dataset, one.name, one.namespace)] as const),
  );
  const datasets = new Map(found.flatMap(([key, dataset]) => (dataset === undefined ? [] : [[key, dataset]])));
  const withoutAgent =
    nodeName !== undefined && nodeCache === undefined && !reader.permitted.isForbidden(kinds.NodeCache.plural);
  return { pod, volumes, datasets, preload, nodeCache, withoutAgent, events, unseen: [...reader.permitted.unseen] };
}

export function keyOf({ namespace, name }: DatasetName): string {
  return `${namespace}/${name}`;
}

/** Reads permitted objects and collects the forbidden ones. */
class Reader {
  readonly permitted = new PermittedReads();
  readonly #api: Pick<KubernetesClient, 'get' | 'list'>;
  readonly #signal: AbortSignal;

  constructor(api: Pick<KubernetesClient, 'get' | 'list'>, signal: AbortSignal) {
    this.#api = api;
    this.#signal = signal;
  }

  /** Undefined: the object does not exist, or the user may not read it. */
  async get<T extends KubernetesObject>(type: ResourceType<T>, name: string, namespace?: string) {
    return await this.permitted.read(type.plural, () => this.#api.get(type, name, namespace, this.#signal));
  }

  async volumes(pod: Pod, namespace: string): Promise<VolumeFacts[]> {
    const volumes = podVolumes(pod, namespace).map(async (one): Promise<VolumeFacts[]> => {
      const { volume } = one;
      if (one.kind === 'dataset') return [{ volume, claim: undefined, dataset: one.dataset, unknown: '' }];
      const claim = await this.get(kinds.PersistentVolumeClaim, one.claim, namespace);
      if (claim === undefined) {
        const dataset = one.kind === 'template' ? one.dataset : undefined;
        // The pod's template creates this claim for another driver.
        if (one.kind === 'template' && dataset === undefined) return [];
        const unknown = dataset === undefined ? `there is no claim ${one.claim} yet` : '';
        return [{ volume, claim: one.claim, dataset, unknown }];
      }
      const claimed = claimedDataset(claim, namespace);
      if (claimed !== undefined) return [{ volume, claim: one.claim, dataset: claimed, unknown: '' }];
      const bound = claim.spec?.volumeName;
      if (!bound) return [];
      const persistent = await this.get(kinds.PersistentVolume, bound);
      const dataset = persistent === undefined ? undefined : datasetOfVolume(persistent);
      return dataset === undefined ? [] : [{ volume, claim: one.claim, dataset, unknown: '' }];
    });
    return (await Promise.all(volumes)).flat();
  }

  async events(pod: Pod, namespace: string): Promise<CoreEvent[]> {
    const fieldSelector = `involvedObject.uid=${pod.metadata?.uid}`;
    const list = await this.permitted.read('events', () =>
      this.#api.list(kinds.CoreEvent, { namespace, fieldSelector }, this.#signal),
    );
    return (list?.items ?? []).sort((a, b) => (timeOf(a) < timeOf(b) ? -1 : 1));
  }
}

function timeOf({ lastTimestamp, eventTime, metadata }: CoreEvent): string {
  return lastTimestamp ?? eventTime ?? metadata?.creationTimestamp ?? '';
}
