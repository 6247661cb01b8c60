import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { silentLogger } from '@hearth/common';
import { kinds, Reflector } from '@hearth/common/kubernetes';
import type { CachePreload, Dataset } from '@hearth/common/resources';
import { freePort, until } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';
import { FileOrigin } from '@hearth/common/testing/origins';
import { Registry } from '@prometheus-io/client';
import type { Context } from 'mocha';
import { AgentDirectory, type AgentEndpoint } from '../../../operator/src/agents/index.ts';
import { agentName, planCertificates } from '../../../operator/src/certificates/index.ts';
import { nodeFacts } from '../../../operator/src/kubernetes/index.ts';
import {
  type PodGroupStatus,
  type PodGroupStatuses,
  type PreloadControllerOptions,
  PreloadMetrics,
  ReadinessBoard,
  runPreloadController,
} from '../../../operator/src/preload/index.ts';
import { DatasetCluster, datasetObject, operatorUser, storageCluster } from '../datasets/fixture.ts';
import { TestOperator } from '../datasets/operator.ts';
import { RunningControllers } from '../datasets/running_controllers.ts';

export const mib = 1 << 20;

/** What the controller of CachePreloads needs beside what that of Datasets does. */
const rules = [
  { apiGroups: ['hearth.storage'], resources: ['cachepreloads'], verbs: ['list', 'watch', 'patch'] },
  { apiGroups: ['hearth.storage'], resources: ['cachepreloads/status'], verbs: ['patch'] },
  { apiGroups: [''], resources: ['nodes'], verbs: ['list', 'watch'] },
];

/** A real API server, real agents by mutual TLS on nodes that exist as objects, an origin, and the operator's parts. */
export class PreloadCluster {
  readonly kubernetes: DatasetCluster;
  readonly hearth: Cluster;
  readonly origin: FileOrigin;
  readonly #directory = new AgentDirectory(silentLogger);
  readonly #endpoints: AgentEndpoint[] = [];
  readonly #texts: Awaited<ReturnType<typeof planCertificates>>['texts'];
  readonly #datasets: TestOperator;
  executor: TestExecutor | undefined;

  private constructor(
    kubernetes: DatasetCluster,
    hearth: Cluster,
    origin: FileOrigin,
    texts: Awaited<ReturnType<typeof planCertificates>>['texts'],
  ) {
    this.kubernetes = kubernetes;
    this.hearth = hearth;
    this.origin = origin;
    this.#texts = texts;
    this.#datasets = new TestOperator(kubernetes.operator, this.#directory);
  }

  static async start(context: Context): Promise<PreloadCluster> {
    const kubernetes = await DatasetCluster.start(context);
    const metadata = { name: 'hearth-preloads' };
    const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: metadata.name };
    const subjects = [{ kind: 'User', apiGroup: 'rbac.authorization.k8s.io', name: operatorUser }];
    const rbac = { apiVersion: 'rbac.authorization.k8s.io/v1' };
    await kubernetes.apply({ ...rbac, kind: 'ClusterRole', metadata, rules });
    await kubernetes.apply({ ...rbac, kind: 'ClusterRoleBinding', metadata, roleRef, subjects });
    await kubernetes.apply(storageCluster('main'));
    const { texts } = await planCertificates({ cluster: 'main', peers: [] }, {}, new Date());
    const hearth = await Cluster.start([]);
    return new PreloadCluster(kubernetes, hearth, await FileOrigin.start('127.0.0.1'), texts);
  }

  async stop(): Promise<void> {
    await this.executor?.stop();
    await this.#datasets.stop();
    await this.#directory.close();
    await this.hearth.close();
    await this.origin[Symbol.asyncDispose]();
    await this.kubernetes.stop();
  }

  /** A node with an agent. `budget`: as `--cache-directories` takes it. */
  async addNode(name: string, labels: Record<string, string> = {}, budget = '1GiB'): Promise<void> {
    await this.kubernetes.apply({
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name, labels: { 'kubernetes.io/os': 'linux', ...labels } },
    });
    const status = { conditions: [{ type: 'Ready', status: 'True' }] };
    await this.kubernetes.kubectl('patch', 'node', name, '--subresource=status', '-p', JSON.stringify({ status }));
    const address = `127.0.0.1:${await freePort()}`;
    const files = { certificate: 'tls.crt', key: 'tls.key', 'client-authorities': 'ca.crt' };
    const flags = Object.entries(files).flatMap(([flag, key]) => {
      const path = join(this.hearth.folder, key);
      writeFileSync(path, this.#texts.agent[key] ?? '');
      return [`--control-${flag}`, path];
    });
    const cache = `${join(this.hearth.folder, `cache-${name}`)}=${budget}:1MiB`;
    const settings = { clusterName: 'main', cacheDirectories: cache, flags: [...flags, '--control-listen', address] };
    await this.hearth.add(name, settings);
    this.#endpoints.push({ node: name, address });
    this.#configure();
  }

  async startExecutor(options: Partial<PreloadControllerOptions> = {}): Promise<TestExecutor> {
    await this.executor?.stop();
    this.executor = new TestExecutor(this.kubernetes.operator, this.#directory, options);
    return this.executor;
  }

  /** The operator's connections to agents end, as when its process does. */
  async forgetAgents(): Promise<void> {
    await this.#directory.forget('main');
    this.#configure();
  }

  /** A Dataset of random files on the origin, when it is Ready; its size in bytes. */
  async dataset(name: string, files: Record<string, number>): Promise<number> {
    const urls = Object.entries(files).map(([file, size]) => this.origin.add(`${name}/${file}`, randomBytes(size)));
    await this.kubernetes.apply(datasetObject(name, { source: { http: { urls } } }));
    await this.kubernetes.reason(name, 'Ready');
    return Object.values(files).reduce((sum, size) => sum + size, 0);
  }

  /** Writes a plan in the place of the gates. */
  async plan(name: string, ...nodes: string[]): Promise<void> {
    const change = JSON.stringify({ spec: { placement: { gatedPods: { nodes } } } });
    await this.kubernetes.kubectl('patch', 'cachepreload', name, '--type=merge', '-p', change);
  }

  async preload(name: string, spec: Record<string, unknown>): Promise<void> {
    await this.kubernetes.apply({
      apiVersion: 'hearth.storage/v1alpha1',
      kind: 'CachePreload',
      metadata: { name, namespace: 'default' },
      spec: { datasets: [{ name }], ...spec },
    });
  }

  async get(name: string): Promise<CachePreload> {
    return await this.kubernetes.get<CachePreload>('cachepreload', name);
  }

  /** Waits until the CachePreload is as it should be; it. */
  async expect(name: string, what: string, holds: (preload: CachePreload) => boolean): Promise<CachePreload> {
    let last: CachePreload | undefined;
    return await until(`CachePreload ${name} ${what}`, async () => {
      last = await this.get(name);
      return holds(last) ? last : undefined;
    }).catch((error: unknown) => {
      throw new Error(`${error}; it is ${JSON.stringify(last?.status, undefined, 1)}`);
    });
  }

  async ready(name: string): Promise<CachePreload> {
    return await this.expect(name, 'Ready', ({ status }) => status?.phase === 'Ready');
  }

  async remove(...names: string[]): Promise<void> {
    for (const name of names) await this.kubernetes.kubectl('delete', 'cachepreload', name, '--timeout=300s');
  }

  async removeDataset(name: string): Promise<void> {
    await this.kubernetes.kubectl('delete', 'dataset', name, '--timeout=300s');
  }

  async status(node = 'n1') {
    return await this.hearth.json<AgentStatus>(node, 'status');
  }

  /** Pins of CachePreloads, as the agents report them. */
  async pins() {
    const agents = this.#directory.get('main');
    assert.ok(agents !== undefined);
    return await agents.call('listPins', { ownerPrefix: 'preload/' }, { signal: AbortSignal.timeout(300_000) });
  }

  async residency(dataset: string, node = 'n1'): Promise<Record<string, number>> {
    const found = (await this.status(node)).datasets.find(({ name }) => name === `default.${dataset}`);
    return Object.fromEntries(found?.residency.map((one) => [one.node, one.residentBytes]) ?? []);
  }

  /** Waits until agents have reported to the operator that a node has so many bytes. */
  async known(dataset: string, node: string, bytes: number): Promise<void> {
    await until(`it is known that ${node} has ${bytes} bytes of ${dataset}`, () => {
      const told = this.#directory.get('main')?.status?.datasets.get(`default.${dataset}`);
      return told?.residency.some((one) => one.node === node && Number(one.residentBytes) === bytes);
    });
  }

  #configure(): void {
    const { operator } = this.#texts;
    const pair = { certificate: operator['tls.crt'] ?? '', key: operator['tls.key'] ?? '' };
    const identity = { ...pair, authorities: operator['ca.crt'] ?? '', serverName: agentName('main') };
    this.#directory.configure('main', identity, [...this.#endpoints]);
  }
}

interface AgentStatus {
  datasets: { name: string; residency: { node: string; residentBytes: number; pinned: boolean }[] }[];
  jobs: { name: string; state: string; nodes: { node: string; originBytes: number; peerBytes: number }[] }[];
}

/** What the gates would report of the pods of a CachePreload; a test writes the plan. */
const waitingPods: PodGroupStatuses = {
  of: (): PodGroupStatus => ({ reason: 'a test says so', waiting: 1, released: 0 }),
  onChange: () => () => undefined,
};

/** The operator's controller of CachePreloads. */
export class TestExecutor {
  readonly readiness = new ReadinessBoard();
  readonly registry = new Registry();
  readonly #controllers: RunningControllers;

  constructor(kubeconfig: string, agents: AgentDirectory, options: Partial<PreloadControllerOptions>) {
    this.#controllers = new RunningControllers(kubeconfig, async ({ signal, ...parts }) => {
      const { api, logger } = parts;
      const preloads = new Reflector({ api, type: kinds.CachePreload, logger });
      const datasets = new Reflector<Dataset>({ api, type: kinds.Dataset, logger });
      const clusters = new Reflector({ api, type: kinds.StorageCluster, logger });
      const nodes = new Reflector({ api, type: kinds.Node, project: nodeFacts, logger });
      for (const one of [preloads, datasets, clusters, nodes]) one.start(signal);
      const { readiness } = this;
      const metrics = new PreloadMetrics(this.registry, () => preloads.all());
      const sources = { preloads, datasets, clusters, nodes, podGroups: waitingPods };
      const common = { ...parts, ...sources, agents, readiness, metrics, graceMs: 3_000 };
      await runPreloadController({ ...common, ...options }, signal);
    });
  }

  stop(): Promise<void> {
    return this.#controllers.stop();
  }
}

export function conditionOf({ status }: CachePreload, type: string) {
  const found = status?.conditions?.find((one) => one.type === type);
  assert.ok(found !== undefined, `no condition ${type}`);
  return found;
}
