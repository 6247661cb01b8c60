import assert from 'node:assert/strict';
import { kinds, type Pod } from '@hearth/common/kubernetes';
import type { CachePreload, Gate } from '@hearth/common/resources';
import { until } from '@hearth/common/testing';
import { ChartServer, ControllerManager } from '@hearth/common/testing/kubernetes';
import type { Context } from 'mocha';
import { datasetObject, isGated, podObject } from './gate_objects.ts';
import { GateReplica, type ReplicaOptions, serverName } from './gate_replica.ts';
import { TestAgents } from './test_agents.ts';

export { operatorUser } from '@hearth/common/testing/kubernetes';
export * from './gate_objects.ts';
export { GateReplica, serverName } from './gate_replica.ts';

export const megabyte = 1_000_000;

/** A real API server with the chart's definitions, rights, policies and webhook. */
export class GateCluster extends ChartServer {
  readonly agents = new TestAgents('main');
  readonly #replicas = new Set<GateReplica>();
  readonly #controllers: ControllerManager[] = [];
  #models = 0;

  /** Of a suite, or of a benchmark, which is not skipped where programs cannot be built. */
  static override async start(context?: Context): Promise<GateCluster> {
    const cluster = new GateCluster(await ChartServer.serve(context));
    await cluster.apply({
      apiVersion: 'hearth.storage/v1alpha1',
      kind: 'StorageCluster',
      metadata: { name: 'main' },
      spec: { nodeGroups: [{ name: 'all', cacheDirectories: [{ path: '/var/cache/hearth', budget: '1Ti' }] }] },
    });
    return cluster;
  }

  /**
   * The configuration of the chart, but for where the API server finds the webhook, and how long it waits for it: it is in
   * the test's own process, which on a busy machine may not run for seconds, and pods are admitted without it after that.
   */
  async askAt(port: number): Promise<void> {
    const configuration = this.objects.find(({ kind }) => kind === 'MutatingWebhookConfiguration');
    assert.ok(configuration);
    const [webhook] = configuration.webhooks;
    const { service, ...clientConfig } = webhook.clientConfig;
    const webhooks = [
      {
        ...webhook,
        timeoutSeconds: 30,
        clientConfig: { ...clientConfig, url: `https://${serverName}:${port}${service.path}` },
      },
    ];
    await this.apply({ ...configuration, webhooks });
  }

  /** Runs controllers of Kubernetes, by their names. */
  async run(...controllers: string[]): Promise<void> {
    this.#controllers.push(await ControllerManager.start(this.server, controllers));
  }

  /** The name of a Dataset that no node holds yet. */
  newModel(): string {
    return `model-${++this.#models}`;
  }

  /** A replica of the operator with the rights of the chart's account. */
  async replica(name: string, options: Partial<ReplicaOptions> = {}): Promise<GateReplica> {
    const [api, urgentApi] = [this.operatorApi(), this.operatorApi()];
    const replica = new GateReplica({ api, urgentApi, name, agents: this.agents, ...options });
    this.#replicas.add(replica);
    await replica.listening();
    return replica;
  }

  /** A replica that leads, and whose webhook the API server asks about pods. */
  async leader(name: string): Promise<GateReplica> {
    const replica = await this.replica(name);
    await this.askAt(await replica.listening());
    await until('it leads and may be asked', () => replica.election.isLeader && replica.reasons.length === 0);
    const metadata = { name: 'probe', namespace: 'default', annotations: { 'hearth.storage/gate': 'Wait' } };
    await this.gates(podObject('probe', { claims: ['none'] }, { metadata }));
    return replica;
  }

  /** The pod as the API server would admit it. */
  async dryRun(pod: Pod): Promise<Pod> {
    const args = ['create', '--dry-run=server', '-o', 'json', '-f', '-'];
    const outcome = await this.tryKubectl(args, JSON.stringify(pod));
    assert.equal(outcome.code, 0, outcome.stderr);
    return JSON.parse(outcome.stdout);
  }

  /** Waits until the API server asks the webhook, and it puts a gate on such a pod. */
  async gates(pod: Pod): Promise<void> {
    await until('pods are gated', async () => isGated(await this.dryRun(pod)));
  }

  /** Nodes whose agents serve. */
  async serving(...names: string[]): Promise<void> {
    for (const name of names) await this.node(name);
    this.agents.serve(...names);
  }

  async node(name: string, labels: Record<string, string> = {}): Promise<void> {
    await this.api.create(kinds.Node, {
      metadata: { name, labels: { 'kubernetes.io/hostname': `host-${name}`, ...labels } },
    });
    const allocatable = { cpu: '32', memory: '256Gi', pods: '250' };
    const status = { allocatable, capacity: allocatable, conditions: [{ type: 'Ready', status: 'True' }] };
    await this.api.patch(kinds.Node, name, undefined, { status }, { kind: 'merge', subresource: 'status' });
    // Its controller, which would do so, does not run.
    await this.api.patch(kinds.Node, name, undefined, { spec: { taints: null } }, { kind: 'merge' });
  }

  /** A Dataset that agents know, of one megabyte. */
  async dataset(name: string, gate: Partial<Gate> | undefined, namespace = 'default'): Promise<void> {
    await this.apply(datasetObject(name, gate, namespace));
    await this.resolved(name, namespace);
  }

  /** The agents have listed it, and report it. */
  async resolved(name: string, namespace = 'default'): Promise<void> {
    const status = { cluster: 'main', manifest: 'a'.repeat(64), bytes: megabyte, files: 1 };
    await this.api.patch(kinds.Dataset, name, namespace, { status }, { kind: 'merge', subresource: 'status' });
    this.agents.hold('none', `${namespace}.${name}`, 0n, BigInt(megabyte));
  }

  async pod(name: string, namespace = 'default'): Promise<Pod> {
    const pod = await this.api.get(kinds.Pod, name, namespace);
    assert.ok(pod, `there is no pod ${namespace}/${name}`);
    return pod;
  }

  /** Waits until the pod has no gate of ours; the pod. */
  async released(name: string, namespace = 'default'): Promise<Pod> {
    let told: string | undefined;
    return await until(`pod ${name} released`, async () => {
      const pod = await this.pod(name, namespace);
      told = (await this.events(name, namespace)).join('; ');
      return isGated(pod) ? undefined : pod;
    }).catch((error: unknown) => {
      throw new Error(`${error}; its events: ${told}`);
    });
  }

  async preload(name: string, namespace = 'default'): Promise<CachePreload | undefined> {
    return await this.api.get(kinds.CachePreload, name, namespace);
  }

  async preloads(namespace = 'default'): Promise<CachePreload[]> {
    return (await this.api.list(kinds.CachePreload, { namespace })).items;
  }

  /** `TYPE REASON: MESSAGE` of the events of a pod. */
  events(name: string, namespace = 'default'): Promise<string[]> {
    return this.eventsOf('Pod', name, namespace);
  }

  async event(name: string, pattern: RegExp, namespace = 'default'): Promise<string> {
    return await until(`event ${pattern} of ${name}`, async () =>
      (await this.events(name, namespace)).find((one) => pattern.test(one)),
    );
  }

  /** Removes what a test made. */
  async clear(): Promise<void> {
    const all = [
      'deployments,replicasets,daemonsets,statefulsets,jobs,pods,persistentvolumeclaims,datasets',
      '--all',
      '-A',
    ];
    await this.kubectl('delete', ...all, '--grace-period=0', '--force', '--wait=false');
    // kubectl would wait for one after the other.
    await this.kubectl('delete', 'cachepreloads', '--all', '-A', '--wait=false');
    await until('no CachePreload left', async () => (await this.api.list(kinds.CachePreload)).items.length === 0);
    await until('no pod left', async () => (await this.api.list(kinds.Pod)).items.length === 0);
  }

  override async stop(): Promise<void> {
    for (const running of [...this.#replicas, ...this.#controllers]) await running.stop();
    await super.stop();
  }
}
