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

/** Reflectors of what the operator makes in its own namespace, by kind, chosen by `ownedSelector`. */
export interface OwnedSources {
  DaemonSet: Source<DaemonSet>;
  StatefulSet: Source<StatefulSet>;
  Service: Source<Service>;
  ConfigMap: Source<ConfigMap>;
  PodDisruptionBudget: Source<PodDisruptionBudget>;
  Secret: Source<Secret>;
}

/** Kinds of which a StorageCluster has objects, in the order in which they are deleted. */
export const ownedTypes: readonly ResourceType[] = [
  kinds.DaemonSet,
  kinds.StatefulSet,
  kinds.PodDisruptionBudget,
  kinds.Service,
  kinds.ConfigMap,
  kinds.Secret,
] as readonly ResourceType[];

/** The present objects of all clusters. */
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

  /** Everything with the cluster's label but Secrets, which are never deleted while it is there. */
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
