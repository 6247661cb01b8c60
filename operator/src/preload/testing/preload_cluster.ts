import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { kinds, Reflector } from '@hearth/common/kubernetes';
import type { CachePreload, Dataset } from '@hearth/common/resources';
import { until } from '@hearth/common/testing';
import type { Cluster } from '@hearth/common/testing/agents';
import { FileOrigin } from '@hearth/common/testing/origins';
import { Registry } from '@prometheus-io/client';
import type { Context } from 'mocha';
import type { AgentDirectory } from '../../agents/index.ts';
import { RealAgents } from '../../agents/testing/real_agents.ts';
import { DatasetCluster, datasetObject, storageCluster } from '../../dataset/testing/dataset_cluster.ts';
import { TestOperator } from '../../dataset/testing/test_operator.ts';
import { nodeFacts } from '../../kubernetes/index.ts';
import { RunningControllers } from '../../testing/running_controllers.ts';
import {
  type PodGroupStatus,
  type PodGroupStatuses,
  PreloadMetrics,
  ReadinessCache,
  runPreloadController,
} from '../index.ts';
import type { PreloadControllerOptions } from '../preload_controller.ts';

export const mib = 1 << 20;
/** The most that an agent asks an origin for at a time. */
export const requestBytes = 8 * mib;

/** A real API server, real agents by mutual TLS on nodes that exist as objects, an origin, and the operator's parts. */
export class PreloadCluster {
  readonly kubernetes: DatasetCluster;
  readonly hearth: Cluster;
  readonly origin: FileOrigin;
  readonly #agents: RealAgents;
  readonly #datasets: TestOperator;
  executor: TestExecutor | undefined;

  private constructor(kubernetes: DatasetCluster, agents: RealAgents, origin: FileOrigin) {
    this.kubernetes = kubernetes;
    this.hearth = agents.hearth;
    this.origin = origin;
    this.#agents = agents;
    this.#datasets = new TestOperator(kubernetes.operator, agents.directory);
  }

  static async start(context: Context): Promise<PreloadCluster> {
    const kubernetes = await DatasetCluster.start(context);
    await kubernetes.apply(storageCluster('main'));
    return new PreloadCluster(kubernetes, await RealAgents.start(), await FileOrigin.start('127.0.0.1'));
  }

  async stop(): Promise<void> {
    await this.executor?.stop();
    await this.#datasets.stop();
    await this.#agents.close();
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
    await this.#agents.add(name, {
      cacheDirectories: `${join(this.hearth.folder, `cache-${name}`)}=${budget}:1MiB`,
    });
  }

  async startExecutor(options: Partial<PreloadControllerOptions> = {}): Promise<TestExecutor> {
    await this.executor?.stop();
    this.executor = new TestExecutor(this.kubernetes.operator, this.#agents.directory, options);
    return this.executor;
  }

  /** The operator's connections to agents end, as when its process does. */
  async forgetAgents(): Promise<void> {
    await this.#agents.reconnect();
  }

  /** A Dataset of random files on the origin, when it is Ready; its size in bytes. */
  async dataset(name: string, files: Record<string, number>): Promise<number> {
    const urls = Object.entries(files).map(([file, size]) => this.origin.add(`${name}/${file}`, randomBytes(size)));
    await this.kubernetes.apply(datasetObject(name, { source: { http: { urls } } }));
    await this.kubernetes.reason(name, 'Ready');
    return Object.values(files).reduce((sum, size) => sum + size, 0);
  }

  /**
   * Asserts that the origin has sent its bytes once, since `sentBytes` was set to 0. On a busy machine it may stall,
   * and agents then ask it once more for a straggler's bytes; they count these requests, and each costs one request at
   * the most.
   */
  async sentOnce(size: number, origin = this.origin): Promise<void> {
    const hedges = await this.#hedges();
    const { sentBytes } = origin;
    const right = sentBytes >= size && sentBytes <= size + hedges * requestBytes;
    assert.ok(right, `the origin has sent ${sentBytes} of ${size} bytes, with ${hedges} hedges`);
  }

  /** Requests by which agents have asked an origin again for what a straggler was asked for, since they began. */
  async #hedges(): Promise<number> {
    let sum = 0;
    for (const { name, running, healthPort } of this.hearth.agents.values()) {
      if (!running) continue;
      const text = await (await fetch(`http://127.0.0.1:${healthPort}/metrics`)).text();
      const count = /^hearth_origin_hedged_requests_total (\d+)$/m.exec(text)?.[1];
      assert.ok(count !== undefined, `agent ${name} does not count its hedges`);
      sum += Number(count);
    }
    return sum;
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
    const agents = this.#agents.directory.get('main');
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
      const told = this.#agents.directory.get('main')?.status?.datasets.get(`default.${dataset}`);
      return told?.residency.some((one) => one.node === node && Number(one.residentBytes) === bytes);
    });
  }
}

interface AgentStatus {
  datasets: { name: string; residency: { node: string; residentBytes: number; pinned: boolean }[] }[];
  jobs: { name: string; state: string; nodes: { node: string; originBytes: number; peerBytes: number }[] }[];
}

/** The reports of the gates on the pods of a CachePreload; a test writes the plan. */
const waitingPods: PodGroupStatuses = {
  of: (): PodGroupStatus => ({ reason: 'a test says so', waiting: 1, released: 0 }),
  holds: () => false,
  onChange: () => () => undefined,
};

/** The operator's controller of CachePreloads. */
export class TestExecutor {
  readonly readiness = new ReadinessCache();
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
