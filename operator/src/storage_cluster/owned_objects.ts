import {
  type ConfigMap,
  type DaemonSet,
  type KubernetesObject,
  kinds,
  type PodDisruptionBudget,
  type ResourceType,
  type Secret,
  type Service,
  type StatefulSet,
} from '@hearth/common/kubernetes';
import { clusterLabel } from '@hearth/common/resources';
import type { Source } from '../kubernetes/index.ts';

/** Reflectors of the operator's own objects, selected by `ownedSelector`. */
export interface OwnedSources {
  DaemonSet: Source<DaemonSet>;
  StatefulSet: Source<StatefulSet>;
  Service: Source<Service>;
  ConfigMap: Source<ConfigMap>;
  PodDisruptionBudget: Source<PodDisruptionBudget>;
  Secret: Source<Secret>;
}

/** Kinds of a StorageCluster's objects, in the order of deletion. */
export const ownedTypes: readonly ResourceType[] = [
  kinds.DaemonSet,
  kinds.StatefulSet,
  kinds.PodDisruptionBudget,
  kinds.Service,
  kinds.ConfigMap,
  kinds.Secret,
] as readonly ResourceType[];

export class OwnedObjects {
  readonly #sources: OwnedSources;
  readonly #namespace: string;

  constructor(sources: OwnedSources, namespace: string) {
    this.#sources = sources;
    this.#namespace = namespace;
  }

  get<Kind extends keyof OwnedSources>(kind: Kind, name: string): ReturnType<OwnedSources[Kind]['get']> {
    return this.#sources[kind].get(`${this.#namespace}/${name}`) as ReturnType<OwnedSources[Kind]['get']>;
  }

  /** Objects with the cluster's label, except Secrets, which live as long as the cluster. */
  ofCluster(cluster: string): { type: ResourceType; object: KubernetesObject }[] {
    return ownedTypes
      .filter((type) => type.kind !== 'Secret')
      .flatMap((type) => {
        const present: KubernetesObject[] = this.#sources[type.kind as keyof OwnedSources].all();
        return present.filter((object) => clusterOf(object) === cluster).map((object) => ({ type, object }));
      });
  }
}

export function clusterOf(object: KubernetesObject): string | undefined {
  return object.metadata?.labels?.[clusterLabel];
}
