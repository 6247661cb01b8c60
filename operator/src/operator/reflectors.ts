import { isDeepStrictEqual } from 'node:util';
import type { Logger } from '@hearth/common';
import {
  type KubernetesClient,
  type KubernetesObject,
  kinds,
  Reflector,
  type ReflectorOptions,
} from '@hearth/common/kubernetes';
import { claimView, podView, volumeFacts } from '../gates/index.ts';
import { nodeFacts, ownedSelector, type Source } from '../kubernetes/index.ts';
import { plannedNode } from '../planner/index.ts';
import { classView } from '../provisioner/index.ts';
import { podState } from '../storage_cluster/index.ts';
import { webhookName } from '../webhook/index.ts';

type AnyReflector = Pick<Reflector<KubernetesObject, unknown>, 'start' | 'synced' | 'hasSynced' | 'size'>;

export interface ReflectorsOptions {
  api: Pick<KubernetesClient, 'list' | 'watch'>;
  namespace: string;
  /** Also watches the webhook's configuration. */
  webhook: boolean;
  logger: Logger;
}

/** Reflectors of all kinds; numerous objects are projected. */
export function createReflectors({ api, namespace, webhook, logger }: ReflectorsOptions) {
  const make = <T extends KubernetesObject, P = T>(options: Omit<ReflectorOptions<T, P>, 'api' | 'logger'>) =>
    new Reflector<T, P>({ ...options, api, logger });
  const owned = { namespace, labelSelector: ownedSelector };
  // RBAC allows this object alone.
  const ours = { fieldSelector: `metadata.name=${webhookName}` };
  return {
    clusters: make({ type: kinds.StorageCluster }),
    caches: make({ type: kinds.NodeCache }),
    datasets: make({ type: kinds.Dataset }),
    preloads: make({ type: kinds.CachePreload }),
    nodes: make({ type: kinds.Node, project: (node) => ({ ...nodeFacts(node), planned: plannedNode(node) }) }),
    pods: make({ type: kinds.Pod, project: podView }),
    ownPods: make({ type: kinds.Pod, ...owned, project: podState }),
    volumes: make({ type: kinds.PersistentVolume, project: volumeFacts }),
    claims: make({ type: kinds.PersistentVolumeClaim, project: claimView }),
    storageClasses: make({ type: kinds.StorageClass, project: classView }),
    daemonSets: make({ type: kinds.DaemonSet, ...owned }),
    statefulSets: make({ type: kinds.StatefulSet, ...owned }),
    services: make({ type: kinds.Service, ...owned }),
    configMaps: make({ type: kinds.ConfigMap, ...owned }),
    disruptionBudgets: make({ type: kinds.PodDisruptionBudget, ...owned }),
    secrets: make({ type: kinds.Secret, ...owned }),
    ...(webhook ? { webhooks: make({ type: kinds.MutatingWebhookConfiguration, ...ours }) } : {}),
  };
}

export type Reflectors = ReturnType<typeof createReflectors>;

export function allReflectors(reflectors: Reflectors): [name: string, reflector: AnyReflector][] {
  return Object.entries(reflectors as unknown as Record<string, AnyReflector>);
}

/** Projects a source for one room: drops objects without this part and changes outside of it. */
export function partOfSource<P, Q>(source: Source<P>, part: (value: P) => Q | undefined): Source<Q> {
  const of = (value: P | undefined) => (value === undefined ? undefined : part(value));
  return {
    get: (key) => of(source.get(key)),
    all: () => source.all().flatMap((value) => of(value) ?? []) as Q[],
    keys: () => source.keys().filter((key) => of(source.get(key)) !== undefined),
    synced: () => source.synced(),
    onChange: (listener) =>
      source.onChange((key, before, after) => {
        const [was, is] = [of(before), of(after)];
        if (was !== is && !isDeepStrictEqual(was, is)) listener(key, was, is);
      }),
  };
}
