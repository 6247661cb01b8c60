import { type KubernetesApi, kinds, type Reflector } from '@hearth/common/kubernetes';
import type { CachePreload } from '@hearth/common/resources';
import { until } from '@hearth/common/testing';
import { type NodeReadiness, type PodGroupStatuses, plannedNodesOf, type Readiness } from '../../preload/index.ts';
import type { TestAgents } from './test_agents.ts';

/** Says of each CachePreload what the agents hold of it, and pins it at once; brings nothing. */
export class TestExecutor implements Readiness {
  readonly #agents: TestAgents;
  readonly #preloads: Pick<Reflector<CachePreload>, 'get' | 'keys' | 'onChange'>;
  readonly #listeners = new Set<(key: string) => void>();

  /** Of the gates, which keep CachePreloads from going. */
  podGroups: Pick<PodGroupStatuses, 'holds'> | undefined;

  constructor(
    api: KubernetesApi,
    agents: TestAgents,
    preloads: Pick<Reflector<CachePreload>, 'get' | 'keys' | 'onChange'>,
  ) {
    this.#agents = agents;
    this.#preloads = preloads;
    preloads.onChange((key) => {
      this.#letGo(api, key);
      this.#tell(key);
    });
    for (const key of preloads.keys()) this.#letGo(api, key);
    agents.onChange(() => {
      for (const key of preloads.keys()) this.#tell(key);
    });
  }

  of(key: string): ReadonlyMap<string, NodeReadiness> | undefined {
    const preload = this.#preloads.get(key);
    if (preload === undefined) return undefined;
    const datasets = preload.spec.datasets.map(({ name }) => `${preload.metadata.namespace}.${name}`);
    const percent = (node: string) => Math.min(...datasets.map((name) => this.#agents.percentOf(node, name)));
    return new Map(
      plannedNodesOf(preload).map((node) => {
        return [node, { percent: percent(node), memoryPercent: percent(node), pinned: true }];
      }),
    );
  }

  onChange = (listener: (key: string) => void): (() => void) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };

  /** A deleted CachePreload goes when no pod waits for it. */
  #letGo(api: KubernetesApi, key: string): void {
    const { deletionTimestamp, finalizers, name, namespace } = this.#preloads.get(key)?.metadata ?? {};
    if (name === undefined || deletionTimestamp === undefined || finalizers === undefined) return;
    const patch = { metadata: { finalizers: null } };
    void until('no pod waits for it', () => this.podGroups?.holds(key, deletionTimestamp) === false)
      .then(() => api.patch(kinds.CachePreload, name, namespace, patch, { kind: 'merge' }))
      .catch(() => undefined);
  }

  #tell(key: string): void {
    for (const listener of this.#listeners) listener(key);
  }
}
