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

/** Reflectors of what the operator makes in its own namespace, chosen by `ownedSelector`. */
export interface OwnedSources {
  daemonSets: Source<DaemonSet>;
  statefulSets: Source<StatefulSet>;
  services: Source<Service>;
  configMaps: Source<ConfigMap>;
  disruptionBudgets: Source<PodDisruptionBudget>;
  secrets: Source<Secret>;
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

  get(type: ResourceType, name: string): KubernetesObject | undefined {
    return this.#source(type)?.get(`${this.#namespace}/${name}`);
  }

  statefulSet(name: string): StatefulSet | undefined {
    return this.#sources.statefulSets.get(`${this.#namespace}/${name}`);
  }

  service(name: string): Service | undefined {
    return this.#sources.services.get(`${this.#namespace}/${name}`);
  }

  secret(name: string): Secret | undefined {
    return this.#sources.secrets.get(`${this.#namespace}/${name}`);
  }

  /** Everything with the cluster's label but Secrets, which are never deleted while it is there. */
  ofCluster(cluster: string): { type: ResourceType; object: KubernetesObject }[] {
    return ownedTypes
      .filter((type) => type.kind !== 'Secret')
      .flatMap((type) =>
        (this.#source(type)?.all() ?? [])
          .filter((object) => clusterOf(object) === cluster)
          .map((object) => ({ type, object })),
      );
  }

  /** Calls back with the cluster of every object that changed. Gives the way to stop. */
  onChange(listener: (cluster: string) => void): () => void {
    const stops = Object.values(this.#sources).map((source: Source<KubernetesObject>) =>
      source.onChange((_key, before, after) => {
        const clusters = new Set([before, after].map((object) => object && clusterOf(object)));
        for (const cluster of clusters) if (cluster !== undefined) listener(cluster);
      }),
    );
    return () => {
      for (const stop of stops) stop();
    };
  }

  async synced(): Promise<void> {
    await Promise.all(Object.values(this.#sources).map((source: Source<KubernetesObject>) => source.synced()));
  }

  #source(type: ResourceType): Source<KubernetesObject> | undefined {
    switch (type.kind) {
      case 'DaemonSet':
        return this.#sources.daemonSets;
      case 'StatefulSet':
        return this.#sources.statefulSets;
      case 'Service':
        return this.#sources.services;
      case 'ConfigMap':
        return this.#sources.configMaps;
      case 'PodDisruptionBudget':
        return this.#sources.disruptionBudgets;
      case 'Secret':
        return this.#sources.secrets;
      default:
        return undefined;
    }
  }
}

export function clusterOf(object: KubernetesObject): string | undefined {
  return object.metadata?.labels?.[clusterLabel];
}
