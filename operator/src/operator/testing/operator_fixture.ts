import { randomUUID } from 'node:crypto';
import { silentLogger } from '@hearth/common';
import {
  type ConfigMap,
  type KubernetesApi,
  type KubernetesObject,
  kinds,
  type ResourceType,
} from '@hearth/common/kubernetes';
import type { StorageCluster } from '@hearth/common/resources';
import { until } from '@hearth/common/testing';
import { ChartServer, releaseNamespace as namespace } from '@hearth/common/testing/kubernetes';
import type { Context } from 'mocha';
import { plainPods } from '../../storage_cluster/index.ts';
import { type RunningOperator, runOperator } from '../index.ts';

export { namespace };

/** A real API server with the chart's definitions, rights and policies, and nodes that a test makes. */
export class OperatorFixture extends ChartServer {
  readonly #running: Replica[] = [];

  /** For a suite, which is skipped where the programs cannot be built; without one it throws ToolUnavailable. */
  static override async start(context?: Context): Promise<OperatorFixture> {
    return new OperatorFixture(await ChartServer.serve(context));
  }

  /** A replica with the rights of the chart's service account. */
  async operator(name = 'operator-0', options: { deletionTimeoutMs?: number } = {}): Promise<Replica> {
    const replica = new Replica(this.operatorApi(), name, options);
    this.#running.push(replica);
    await replica.ready();
    return replica;
  }

  async node(name: string, labels: Record<string, string> = {}, tainted = true): Promise<void> {
    const taints = [
      { key: 'other', value: 'kept', effect: 'PreferNoSchedule' },
      ...(tainted ? [{ key: 'hearth.storage/agent-not-ready', effect: 'NoSchedule' }] : []),
    ];
    await this.api.create(kinds.Node, {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name, labels: { 'kubernetes.io/os': 'linux', ...labels } },
      spec: { taints },
    });
    const conditions = [{ type: 'Ready', status: 'True' }];
    await this.#patchStatus(kinds.Node, name, undefined, { conditions });
  }

  /** A pod of a DaemonSet or StatefulSet, as if a kubelet ran it. `configuration`: the ConfigMap that it was made with. */
  async pod(
    name: string,
    labels: Record<string, string>,
    nodeName: string,
    status: object,
    configuration?: string,
  ): Promise<void> {
    const volumes = configuration === undefined ? [] : [{ name: 'configuration', configMap: { name: configuration } }];
    await this.api.create(kinds.Pod, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, namespace, labels },
      spec: { nodeName, containers: [{ name: 'agent', image: 'none' }], volumes },
    });
    await this.podStatus(name, status);
  }

  async podStatus(name: string, status: object): Promise<void> {
    await this.#patchStatus(kinds.Pod, name, namespace, status);
  }

  async #patchStatus<T extends KubernetesObject>(
    type: ResourceType<T>,
    name: string,
    within: string | undefined,
    status: object,
  ): Promise<void> {
    await this.api.patch(type, name, within, { status }, { kind: 'merge', subresource: 'status' });
  }

  async cluster(name: string, spec: object = {}): Promise<StorageCluster> {
    const nodeGroups = [{ name: 'all', cacheDirectories: [{ path: '/var/cache/hearth' }] }];
    return await this.api.create(kinds.StorageCluster, {
      apiVersion: 'hearth.storage/v1alpha1',
      kind: 'StorageCluster',
      metadata: { name },
      spec: { nodeGroups, ...spec },
    } as never);
  }

  async condition(cluster: string, type: string) {
    const found = await this.api.get(kinds.StorageCluster, cluster);
    return found?.status?.conditions?.find((one) => one.type === type);
  }

  /** Waits until the object is there and holds. */
  async expect<T extends KubernetesObject>(
    what: string,
    type: ResourceType<T>,
    name: string,
    holds: (object: T) => boolean = () => true,
  ): Promise<T> {
    let found: T | undefined;
    await until(what, async () => {
      found = await this.api.get(type, name, type.namespaced ? namespace : undefined);
      return found !== undefined && holds(found);
    });
    return found as T;
  }

  /** The ConfigMap that new agents of a group read. */
  async configuration(cluster: string, group = 'all'): Promise<ConfigMap> {
    const set = await this.expect('agents', kinds.DaemonSet, `hearth-${cluster}-${group}-agent`);
    const name = set.spec?.template.spec?.volumes?.find((one) => one.name === 'configuration')?.configMap?.name ?? '';
    return await this.expect('their configuration', kinds.ConfigMap, name);
  }

  /** Versions of everything that the operator writes. */
  async versions(): Promise<Record<string, string | undefined>> {
    const versions: Record<string, string | undefined> = {};
    const types = [kinds.DaemonSet, kinds.StatefulSet, kinds.Service, kinds.ConfigMap, kinds.PodDisruptionBudget];
    for (const type of [...types, kinds.Secret, kinds.StorageCluster, kinds.NodeCache, kinds.Node] as ResourceType[]) {
      const { items } = await this.api.list(type, type.namespaced ? { namespace } : {});
      for (const { metadata } of items) versions[`${type.kind} ${metadata?.name}`] = metadata?.resourceVersion;
    }
    return versions;
  }

  override async stop(): Promise<void> {
    for (const replica of this.#running) await replica.stop();
    await super.stop();
  }
}

/** One operator in this process. */
export class Replica {
  readonly name: string;
  readonly #ending = new AbortController();
  readonly #ready: Promise<RunningOperator>;
  readonly #end: Promise<void>;
  ended = false;

  constructor(api: KubernetesApi, name: string, options: { deletionTimeoutMs?: number }) {
    this.name = name;
    const { promise, resolve, reject } = Promise.withResolvers<RunningOperator>();
    this.#ready = promise;
    this.#end = runOperator({
      api,
      environment: {
        namespace,
        image: 'registry/hearth:1',
        etcdImage: 'registry/etcd:3',
        imagePullPolicy: 'IfNotPresent',
        imagePullSecrets: [],
        pods: plainPods,
      },
      grant: { clusterRole: 'hearth-secrets', serviceAccount: { namespace, name: 'hearth-operator' } },
      identity: `${name}_${randomUUID()}`,
      instance: name,
      http: { port: 0, host: '127.0.0.1' },
      logger: silentLogger,
      signal: this.#ending.signal,
      onReady: resolve,
      election: { retrySeconds: 0.5 },
      ...options,
    })
      .catch(reject)
      .finally(() => {
        this.ended = true;
        api.close();
      });
  }

  ready(): Promise<RunningOperator> {
    return this.#ready;
  }

  async stop(): Promise<void> {
    this.#ending.abort();
    await this.#end;
  }
}
