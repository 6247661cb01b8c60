import assert from 'node:assert/strict';
import { mkdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { silentLogger } from '@hearth/common';
import { kinds, Reflector } from '@hearth/common/kubernetes';
import type { Dataset } from '@hearth/common/resources';
import { TemporaryFolder, tool, until } from '@hearth/common/testing';
import { ChartServer, releaseNamespace } from '@hearth/common/testing/kubernetes';
import { EtcdServer } from '../../node-agent/src/store/testing/etcd_server.ts';
import { statusIntervalMs } from '../../operator/src/agents/agents.ts';
import { AgentHost } from './agent_host.ts';
import { each } from './each.ts';
import { Front } from './front.ts';
import { OperatorReplica } from './operator_replica.ts';
import { coldPrefix } from './simulated_engine.ts';
import { SimulatedNodes } from './simulated_nodes.ts';

export interface Sizes {
  nodes: number;
  datasets: number;
  /** Pods that have nothing to do with Hearth. */
  pods: number;
  /** Processes that the agents share. */
  processes: number;
}

const cluster = 'models';
/** As the operator runs it (`objects/etcd_stateful_set.ts`). */
const etcdFlags = [
  '--auto-compaction-mode=periodic',
  '--auto-compaction-retention=10m',
  '--quota-backend-bytes=2147483648',
];
const gib = 2 ** 30;
/** Datasets that are made at a time. */
const partSize = 250;
/** Datasets that no node holds. */
export const coldDatasets = 20;

/** A real API server and etcd, two replicas of the operator, and nodes whose agents are real but for their engines. */
export class Stage {
  readonly server: ChartServer;
  readonly store: EtcdServer;
  readonly front: Front;
  readonly folder: TemporaryFolder;
  readonly hosts: readonly AgentHost[];
  readonly nodes: SimulatedNodes;
  replicas: OperatorReplica[];
  readonly #sizes: Sizes;

  private constructor(
    server: ChartServer,
    store: EtcdServer,
    front: Front,
    folder: TemporaryFolder,
    replicas: OperatorReplica[],
    sizes: Sizes,
  ) {
    this.server = server;
    this.store = store;
    this.front = front;
    this.folder = folder;
    this.replicas = replicas;
    this.#sizes = sizes;
    const options = {
      folder: folder.path,
      store: `etcd://${store.endpoint}/${cluster}`,
      cluster,
      certificates: folder.file('certificates'),
      statisticsMs: statusIntervalMs(sizes.nodes),
      // In small runs more, so that each is somewhere.
      share: Math.max(0.1, 10 / sizes.nodes),
    };
    this.hosts = Array.from({ length: sizes.processes }, (_, index) => new AgentHost(options, `agents-${index}`));
    this.nodes = new SimulatedNodes(server.api, cluster, this.hosts);
  }

  /** Up to the operator; throws ToolUnavailable where the programs cannot be built. */
  static async start(sizes: Sizes): Promise<Stage> {
    const store = new EtcdServer(await tool('etcd'), etcdFlags);
    const server = await ChartServer.start();
    const folder = new TemporaryFolder('scale');
    for (const name of ['manifests', 'certificates', 'caches', 'data']) mkdirSync(folder.file(name));
    await store.start();
    const kubeconfig = server.operatorKubeconfig();
    const replicas = ['operator-0', 'operator-1'].map((name) => new OperatorReplica(name, kubeconfig, folder.path));
    const stage = new Stage(server, store, await Front.start(), folder, replicas, sizes);
    try {
      await stage.#begin();
    } catch (error) {
      await stage.stop();
      throw error;
    }
    return stage;
  }

  async #begin(): Promise<void> {
    const { api } = this.server;
    await api.create(kinds.StorageCluster, {
      apiVersion: 'hearth.storage/v1alpha1',
      kind: 'StorageCluster',
      metadata: { name: cluster },
      spec: {
        nodeGroups: [{ name: 'all', cacheDirectories: [{ path: '/var/cache/hearth' }] }],
        store: { endpoints: [`http://${this.store.endpoint}`] },
        origins: { directoryPrefixes: [this.folder.file('data')] },
      },
    } as never);
    const secret = await until('the certificates of agents', () =>
      api.get(kinds.Secret, `hearth-${cluster}-agent`, releaseNamespace),
    );
    for (const [name, text] of Object.entries(secret.data ?? {})) {
      writeFileSync(this.folder.file('certificates', name), Buffer.from(text, 'base64'));
    }
    await this.nodes.start();
    await this.#servePods();
  }

  /** The webhook's configuration is the chart's, but for its address. */
  async #servePods(): Promise<void> {
    this.front.lead(...(await Promise.all(this.replicas.map((replica) => replica.webhookPort()))));
    const configuration = this.server.objects.find(({ kind }) => kind === 'MutatingWebhookConfiguration');
    assert.ok(configuration);
    const [webhook] = configuration.webhooks;
    const { service, ...rest } = webhook.clientConfig;
    const clientConfig = { ...rest, url: `https://localhost:${this.front.port}${service.path}` };
    await this.server.apply({ ...configuration, webhooks: [{ ...webhook, clientConfig }] });
  }

  /** Names of the Datasets; all are Ready when this resolves. The last are cold. */
  async makeDatasets(): Promise<{ warm: string[]; cold: string[] }> {
    const warm = Array.from({ length: this.#sizes.datasets - coldDatasets }, (_, index) => `model-${index}`);
    const cold = Array.from({ length: coldDatasets }, (_, index) => `${coldPrefix}-${index}`);
    const all = [...warm, ...cold];
    const ending = new AbortController();
    const ready = new Reflector<Dataset, true>({
      api: this.server.api,
      type: kinds.Dataset,
      namespace: 'default',
      project: ({ status }) =>
        status?.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True') || undefined,
      logger: silentLogger,
    });
    ready.start(ending.signal);
    await ready.synced();
    // In parts, so that none is waited for longer than `until` waits.
    for (let from = 0; from < all.length; from += partSize) {
      const part = all.slice(from, from + partSize);
      await each(part.length, 10, (index) => this.#makeDataset(part[index] as string, from + index));
      await until(`the Datasets from ${part[0]} on are Ready`, () => ready.size >= from + part.length);
    }
    ending.abort();
    return { warm, cold };
  }

  async #makeDataset(name: string, index: number): Promise<void> {
    const path = this.folder.file('data', name);
    mkdirSync(path);
    const file = join(path, `${name}.safetensors`);
    writeFileSync(file, '');
    truncateSync(file, gib + index);
    await this.server.api.create(kinds.Dataset, {
      apiVersion: 'hearth.storage/v1alpha1',
      kind: 'Dataset',
      metadata: { name, namespace: 'default' },
      spec: { source: { directory: { path } }, gate: { mode: 'Wait' } },
    } as never);
  }

  /** Pods of others, on all nodes. */
  async fillNodes(): Promise<void> {
    const names = this.nodes.names;
    await each(this.#sizes.pods, 16, async (index) => {
      await this.server.api.create(kinds.Pod, {
        metadata: { name: `other-${index}`, namespace: 'kube-public', labels: { app: `app-${index % 500}` } },
        spec: {
          nodeName: names[index % names.length] as string,
          containers: [{ name: 'main', image: 'none', resources: { requests: { cpu: '100m', memory: '1Gi' } } }],
        },
      });
    });
  }

  /** The replica that leads, and the other. */
  async leader(): Promise<OperatorReplica> {
    return await until('a replica leads', async () => {
      for (const replica of this.replicas) {
        if ((await replica.metric('hearth_operator_leader')) === 1) return replica;
      }
      return undefined;
    });
  }

  /** Kills a replica; the Deployment makes none in its place. */
  async kill(replica: OperatorReplica): Promise<void> {
    await replica.kill();
    this.replicas = this.replicas.filter((one) => one !== replica);
    this.front.lead(...(await Promise.all(this.replicas.map((one) => one.webhookPort()))));
  }

  async stop(): Promise<void> {
    this.nodes.close();
    for (const host of this.hosts) host.end();
    for (const replica of this.replicas) await replica.kill();
    this.front.close();
    await this.server.stop();
    await this.store.erase();
    await this.folder.remove();
  }
}
