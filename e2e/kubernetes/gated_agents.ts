import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { silentLogger } from '@hearth/common';
import { type KubernetesApi, kinds } from '@hearth/common/kubernetes';
import { until } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';
import { apiOf, releaseNamespace } from '@hearth/common/testing/kubernetes';
import { FileOrigin } from '@hearth/common/testing/origins';
import type { Context } from 'mocha';
import { GateCluster, podObject, serverName } from '../../operator/src/gates/testing/gate_cluster.ts';
import { type RunningOperator, runOperator } from '../../operator/src/operator/index.ts';
import { plainPods } from '../../operator/src/storage_cluster/index.ts';

const nodes = { n1: '127.0.0.2', n2: '127.0.0.3' };
const agentLabels = {
  'app.kubernetes.io/name': 'hearth',
  'app.kubernetes.io/component': 'agent',
  'app.kubernetes.io/managed-by': 'hearth-operator',
  'hearth.storage/cluster': 'main',
  'hearth.storage/node-group': 'all',
};

/**
 * A real API server, the operator with the chart's rights in this process, real agents on two nodes that the operator speaks
 * with by mutual TLS, and an origin on loopback. Pods that mount Datasets are gated; no kubelet runs them.
 */
export class GatedAgents implements AsyncDisposable {
  readonly cluster: GateCluster;
  /** The agents `n1` and `n2`. */
  readonly agents: Cluster;
  readonly origin: FileOrigin;
  readonly #ending = new AbortController();
  readonly #agentFlags: readonly string[];
  #api: KubernetesApi | undefined;
  #operator: RunningOperator | undefined;
  #ended: Promise<void> | undefined;

  private constructor(cluster: GateCluster, agents: Cluster, origin: FileOrigin, agentFlags: readonly string[]) {
    this.cluster = cluster;
    this.agents = agents;
    this.origin = origin;
    this.#agentFlags = agentFlags;
  }

  /**
   * For a suite, which is skipped where the programs cannot be built. `holder`: agents can mount; `agentFlags`: more flags of
   * both agents.
   */
  static async start(
    context: Context,
    { holder = false, agentFlags = [] }: { holder?: boolean; agentFlags?: readonly string[] } = {},
  ): Promise<GatedAgents> {
    const cluster = await GateCluster.start(context);
    const [agents, origin] = [await Cluster.start([], { holder }), await FileOrigin.start('127.0.0.1')];
    const started = new GatedAgents(cluster, agents, origin, agentFlags);
    try {
      await started.#start();
    } catch (error) {
      await started[Symbol.asyncDispose]();
      throw error;
    }
    return started;
  }

  /** Of the operator's metrics, by HTTP on loopback. */
  get operatorPort(): number {
    if (this.#operator === undefined) throw new Error('the operator does not run');
    return this.#operator.port;
  }

  /** Makes a Dataset of random bytes on the origin, and waits until the agents know the Dataset. */
  async dataset(name: string, bytes: number, gate: object): Promise<void> {
    const urls = [this.origin.add(`${name}/weights.bin`, randomBytes(bytes))];
    await this.cluster.apply({
      apiVersion: 'hearth.storage/v1alpha1',
      kind: 'Dataset',
      metadata: { name, namespace: 'default' },
      spec: { source: { http: { urls } }, gate },
    });
    await until(`Dataset ${name} is Ready`, async () => {
      const found = await this.cluster.api.get(kinds.Dataset, name, 'default');
      return found?.status?.conditions?.find(({ type }) => type === 'Ready')?.status === 'True';
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort();
    await this.#ended;
    this.#api?.close();
    await this.cluster.stop();
    await this.agents.close();
    await this.origin[Symbol.asyncDispose]();
  }

  async #start(): Promise<void> {
    for (const name of Object.keys(nodes)) await this.cluster.node(name);
    this.#api = apiOf(await this.cluster.operatorKubeconfig());
    this.#operator = await this.#startOperator(this.#api);
    await this.cluster.askAt(this.#operator.webhookPort ?? 0);
    await this.#startAgents(this.#api);
    await this.dataset('model', 3 << 20, { mode: 'Wait' });
    await this.cluster.gates(podObject('probe', { datasets: ['model'] }));
  }

  #startOperator(api: KubernetesApi): Promise<RunningOperator> {
    const { promise, resolve, reject } = Promise.withResolvers<RunningOperator>();
    this.#ended = runOperator({
      api,
      environment: {
        namespace: releaseNamespace,
        image: 'registry/hearth:1',
        etcdImage: 'registry/etcd:3',
        imagePullPolicy: 'IfNotPresent',
        imagePullSecrets: [],
        pods: plainPods,
      },
      grant: {
        clusterRole: 'hearth-secrets',
        serviceAccount: { namespace: releaseNamespace, name: 'hearth-operator' },
      },
      identity: 'operator-0',
      instance: 'operator-0',
      http: { port: 0, host: '127.0.0.1' },
      webhook: { port: 0, host: 'localhost', serverName, lingerMs: 0 },
      logger: silentLogger,
      signal: this.#ending.signal,
      onReady: resolve,
      election: { retrySeconds: 0.5 },
    }).catch(reject);
    return promise;
  }

  /** With the certificate that the operator has made for them, and pods that show the operator their addresses. */
  async #startAgents(api: KubernetesApi): Promise<void> {
    const secret = await until("the agents' certificate", () =>
      api.get(kinds.Secret, 'hearth-main-agent', releaseNamespace),
    );
    const files = { certificate: 'tls.crt', key: 'tls.key', 'client-authorities': 'ca.crt' };
    const flags = Object.entries(files).flatMap(([flag, key]) => {
      const path = join(this.agents.folder, key);
      writeFileSync(path, Buffer.from(secret.data?.[key] ?? '', 'base64'));
      return [`--control-${flag}`, path];
    });
    for (const [node, hostIP] of Object.entries(nodes)) {
      const cacheDirectories = `${join(this.agents.folder, `cache-${node}`)}=1GiB:1MiB`;
      const control = [...flags, '--control-listen', `${hostIP}:7528`, ...this.#agentFlags];
      await this.agents.add(node, { clusterName: 'main', cacheDirectories, flags: control });
      const name = `agent-${node}`;
      await this.cluster.api.create(kinds.Pod, {
        metadata: { name, namespace: releaseNamespace, labels: agentLabels },
        spec: { nodeName: node, containers: [{ name: 'agent', image: 'none' }] },
      });
      const conditions = [{ type: 'Ready', status: 'True' }];
      const status = { phase: 'Running', hostIP, hostIPs: [{ ip: hostIP }], conditions };
      const how = { kind: 'merge', subresource: 'status' } as const;
      await this.cluster.api.patch(kinds.Pod, name, releaseNamespace, { status }, how);
    }
  }
}
