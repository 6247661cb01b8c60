import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { type Logger, silentLogger } from '@hearth/common';
import {
  type CoreEvent,
  EventRecorder,
  type KubernetesApi,
  kinds,
  LeaderElection,
  type Pod,
} from '@hearth/common/kubernetes';
import {
  type CachePreload,
  type Dataset,
  type Gate,
  preloadAnnotation,
  preloadGateName,
} from '@hearth/common/resources';
import { Registry } from '@prometheus-io/client';
import type { Context } from 'mocha';
import { stringify } from 'yaml';
import type { Agents } from '../../../operator/src/agents/index.ts';
import { GateController } from '../../../operator/src/gates/index.ts';
import { PreloadingMetrics, runPreloading } from '../../../operator/src/operator/preloading.ts';
import { allReflectors, createReflectors } from '../../../operator/src/operator/reflectors.ts';
import { WebhookService } from '../../../operator/src/operator/webhook_service.ts';
import { plan } from '../../../operator/src/planner/index.ts';
import { runWebhookController } from '../../../operator/src/webhook/index.ts';
import type { TestApiServer } from '../../cluster/api_server.ts';
import { tools } from '../../cluster/tools/build.ts';
import { type Outcome, until } from '../../src/command.ts';
import { appliedKinds } from '../../src/operator_fixture.ts';
import { Chart, type Manifest, releaseNamespace } from '../chart.ts';
import { apiOf, startApiServer } from '../runtime/fixture.ts';
import { TestAgents } from './test_agents.ts';
import { TestExecutor } from './test_executor.ts';

export const operatorUser = `system:serviceaccount:${releaseNamespace}:hearth-operator`;
/** As the API server calls the webhook here: nobody translates the addresses of Services. */
export const serverName = 'localhost';
export const megabyte = 1_000_000;

/** A real API server with the chart's definitions, rights, policies and webhook. */
export class GateCluster {
  readonly server: TestApiServer;
  /** As an administrator. */
  readonly api: KubernetesApi;
  readonly agents = new TestAgents('main');
  readonly #configuration: Manifest;
  readonly #replicas = new Set<GateReplica>();

  private constructor(server: TestApiServer, configuration: Manifest) {
    this.server = server;
    this.api = apiOf(server.kubeconfig);
    this.#configuration = configuration;
  }

  static async start(context: Context): Promise<GateCluster> {
    const server = await startApiServer(context);
    const { helm = '' } = await tools(['helm']);
    const objects = await new Chart(helm).template();
    const configuration = objects.find(({ kind }) => kind === 'MutatingWebhookConfiguration');
    assert.ok(configuration);
    const cluster = new GateCluster(server, configuration);
    await cluster.kubectl('create', 'namespace', releaseNamespace);
    const chosen = objects.filter(({ kind }) => appliedKinds.has(kind));
    await cluster.applyText(chosen.map((one) => stringify(one, { version: '1.1' })).join('---\n'));
    await cluster.kubectl('wait', '--for=condition=Established', 'crd', '--all', '--timeout=60s');
    await cluster.apply({
      apiVersion: 'hearth.storage/v1alpha1',
      kind: 'StorageCluster',
      metadata: { name: 'main' },
      spec: { nodeGroups: [{ name: 'all', cacheDirectories: [{ path: '/var/cache/hearth', budget: '1Ti' }] }] },
    });
    return cluster;
  }

  /** The configuration of the chart, but for where the API server finds the webhook. */
  async askAt(port: number): Promise<void> {
    const [webhook] = this.#configuration.webhooks;
    const { service, ...clientConfig } = webhook.clientConfig;
    const webhooks = [
      { ...webhook, clientConfig: { ...clientConfig, url: `https://${serverName}:${port}${service.path}` } },
    ];
    await this.apply({ ...this.#configuration, webhooks });
  }

  /** A replica of the operator with the rights of the chart's account. */
  async replica(name: string, options: Partial<ReplicaOptions> = {}): Promise<GateReplica> {
    const groups = ['system:serviceaccounts', `system:serviceaccounts:${releaseNamespace}`, 'system:authenticated'];
    const kubeconfig = await this.server.userKubeconfig(operatorUser, groups);
    const [api, urgentApi] = [apiOf(kubeconfig), apiOf(kubeconfig)];
    const replica = new GateReplica({ api, urgentApi, name, agents: this.agents, ...options });
    this.#replicas.add(replica);
    await replica.listening();
    return replica;
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

  /** The agents have listed it, and tell of it. */
  async resolved(name: string, namespace = 'default'): Promise<void> {
    const status = { cluster: 'main', manifest: 'a'.repeat(64), bytes: megabyte, files: 1 };
    await this.api.patch(kinds.Dataset, name, namespace, { status }, { kind: 'merge', subresource: 'status' });
    this.agents.hold('none', `${namespace}.${name}`, 0n, BigInt(megabyte));
  }

  async kubectl(...args: string[]): Promise<string> {
    const outcome = await this.tryKubectl(args);
    assert.equal(outcome.code, 0, `kubectl ${args.join(' ')}: ${outcome.stderr}`);
    return outcome.stdout.trim();
  }

  tryKubectl(args: string[], input = ''): Promise<Outcome> {
    return this.server.kubectl(args, { input });
  }

  /** `kubectl apply`, one object after the other. What it says beside. */
  async apply(...objects: object[]): Promise<string> {
    const outcome = await this.tryKubectl(
      ['apply', '-f', '-'],
      JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects }),
    );
    assert.equal(outcome.code, 0, outcome.stderr);
    return outcome.stderr;
  }

  async applyText(text: string): Promise<void> {
    const outcome = await this.tryKubectl(['apply', '--server-side', '-f', '-'], text);
    assert.equal(outcome.code, 0, outcome.stderr);
  }

  async pod(name: string, namespace = 'default'): Promise<Pod> {
    const pod = await this.api.get(kinds.Pod, name, namespace);
    assert.ok(pod, `there is no pod ${namespace}/${name}`);
    return pod;
  }

  /** Waits until the pod has no gate of ours; the pod. */
  async released(name: string, namespace = 'default', limitMs = 20_000): Promise<Pod> {
    let told: string | undefined;
    return await until(
      `pod ${name} released`,
      async () => {
        const pod = await this.pod(name, namespace);
        told = (await this.events(name, namespace)).join('; ');
        return isGated(pod) ? undefined : pod;
      },
      limitMs,
    ).catch((error: unknown) => {
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
  async events(name: string, namespace = 'default'): Promise<string[]> {
    const fieldSelector = `involvedObject.kind=Pod,involvedObject.name=${name}`;
    const { items } = await this.api.list(kinds.CoreEvent, { namespace, fieldSelector });
    return items.map(({ type, reason, message }: CoreEvent) => `${type} ${reason}: ${message}`);
  }

  async event(name: string, pattern: RegExp, namespace = 'default'): Promise<string> {
    return await until(`event ${pattern} of ${name}`, async () =>
      (await this.events(name, namespace)).find((one) => pattern.test(one)),
    );
  }

  /** Takes away what a test made. */
  async clear(): Promise<void> {
    const all = [
      'deployments,replicasets,daemonsets,statefulsets,jobs,pods,persistentvolumeclaims,datasets',
      '--all',
      '-A',
    ];
    await this.kubectl('delete', ...all, '--grace-period=0', '--force', '--wait=false');
    await this.kubectl('delete', 'cachepreloads', '--all', '-A');
    await until('no pod left', async () => (await this.api.list(kinds.Pod)).items.length === 0);
  }

  async stop(): Promise<void> {
    for (const replica of this.#replicas) await replica.stop();
    this.api.close();
    await this.server.stop();
  }
}

interface ReplicaOptions {
  api: KubernetesApi;
  urgentApi: KubernetesApi;
  name: string;
  /** With those of a test, what brings the bytes is a test's too; with others, it is the operator's. */
  agents: Agents;
  logger?: Logger;
}

/** The parts of an operator that have to do with gates: the webhook always, the controllers while it leads. */
export class GateReplica {
  readonly #options: ReplicaOptions;
  readonly #ending = new AbortController();
  readonly #webhook: WebhookService;
  readonly #reflectors: ReturnType<typeof createReflectors>;
  readonly #events: EventRecorder;
  readonly registry = new Registry();
  readonly election: LeaderElection;
  #port: Promise<number> | undefined;
  #running: Promise<void>;

  constructor(options: ReplicaOptions) {
    this.#options = options;
    const { api, urgentApi, name, logger = silentLogger } = options;
    const namespace = releaseNamespace;
    this.#reflectors = createReflectors({ api, namespace, webhook: true, logger });
    const { registry } = this;
    this.#webhook = new WebhookService({ api: urgentApi, namespace, reflectors: this.#reflectors, registry, logger });
    this.#events = new EventRecorder({ api, component: 'hearth-operator', instance: name, logger });
    this.election = new LeaderElection({
      api,
      namespace,
      name: 'hearth-operator',
      identity: `${name}_${randomUUID()}`,
      logger,
      leaseSeconds: 3,
      renewSeconds: 2,
      retrySeconds: 0.3,
    });
    this.#running = this.#run(logger);
  }

  async listening(): Promise<number> {
    return (await this.#port) ?? 0;
  }

  /** Whether the API server may ask it. */
  get reasons(): string[] {
    return this.#webhook.reasons();
  }

  async metric(name: string): Promise<number> {
    const line = (await this.registry.metrics()).split('\n').find((one) => one.startsWith(`${name} `));
    return Number(line?.split(' ')[1] ?? 0);
  }

  async stop(): Promise<void> {
    if (this.#ending.signal.aborted) return;
    this.#ending.abort();
    await this.#running;
    await this.#events.close();
    await this.#webhook.close(0);
    this.#options.api.close();
    this.#options.urgentApi.close();
  }

  async #run(logger: Logger): Promise<void> {
    const { signal } = this.#ending;
    this.#port = this.#webhook.listen(0, 'localhost');
    for (const [, reflector] of allReflectors(this.#reflectors)) reflector.start(signal);
    const metrics = new PreloadingMetrics(this.registry, this.#reflectors);
    await this.election.run((term) => this.#lead(metrics, logger, term), signal);
  }

  async #lead(metrics: PreloadingMetrics, logger: Logger, term: AbortSignal): Promise<void> {
    const { api } = this.#options;
    const { secrets, webhooks: configurations } = this.#reflectors;
    assert.ok(configurations);
    const common = { api, namespace: releaseNamespace, secrets, configurations, serverName, logger };
    await Promise.all([this.#preload(metrics, logger, term), runWebhookController(common, term)]);
  }

  async #preload(metrics: PreloadingMetrics, logger: Logger, term: AbortSignal): Promise<void> {
    const { api, urgentApi, agents } = this.#options;
    const common = { agents, events: this.#events, logger };
    if (!(agents instanceof TestAgents)) {
      await runPreloading({ ...common, api, urgentApi, reflectors: this.#reflectors }, metrics, term);
      return;
    }
    const { pods, nodes, claims, volumes, datasets, preloads } = this.#reflectors;
    const sources = { pods, nodes, claims, volumes, datasets, preloads };
    const readiness = new TestExecutor(api, agents, preloads);
    const gates = new GateController({
      ...common,
      api: urgentApi,
      ...sources,
      plan,
      readiness,
      metrics: metrics.gates,
    });
    readiness.follow(gates.plannedNodes);
    await gates.run(term);
  }
}

export const isGated = ({ spec }: Pod): boolean =>
  spec?.schedulingGates?.some(({ name }) => name === preloadGateName) ?? false;

export const planOf = ({ metadata }: Pod): string => metadata?.annotations?.[preloadAnnotation] ?? '';

/** Host names that a released pod is sent to, by its one wish or its one requirement. */
export function hostsOf({ spec }: Pod): string[] {
  const affinity = spec?.affinity?.nodeAffinity;
  const terms = [
    ...(affinity?.preferredDuringSchedulingIgnoredDuringExecution ?? []).map(({ preference }) => preference),
    ...(affinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? []),
  ];
  const expressions = terms.flatMap(({ matchExpressions = [] }) => matchExpressions);
  return expressions.flatMap(({ key, values = [] }) => (key === 'kubernetes.io/hostname' ? values : []));
}

export function datasetObject(
  name: string,
  gate: Partial<Gate> | undefined,
  namespace = 'default',
): Pick<Dataset, 'kind'> {
  return {
    apiVersion: 'hearth.storage/v1alpha1',
    kind: 'Dataset',
    metadata: { name, namespace },
    spec: { source: { selfTest: {} }, ...(gate === undefined ? {} : { gate }) },
  } as never;
}

export function claimObject(name: string, dataset: string | undefined, namespace = 'default'): object {
  const dataSourceRef = { apiGroup: 'hearth.storage', kind: 'Dataset', name: dataset };
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name, namespace },
    spec: {
      accessModes: ['ReadOnlyMany'],
      storageClassName: dataset === undefined ? 'disks' : 'hearth',
      resources: { requests: { storage: '1Gi' } },
      ...(dataset === undefined ? {} : { dataSourceRef }),
    },
  };
}

/** A pod that mounts Datasets inline, or claims. */
export function podObject(
  name: string,
  mounts: { datasets?: string[]; claims?: string[] },
  fields: { metadata?: Pod['metadata']; spec?: Partial<NonNullable<Pod['spec']>> } = {},
): Pod {
  const { datasets = [], claims = [] } = mounts;
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: 'default', ...fields.metadata },
    spec: {
      containers: [{ name: 'main', image: 'none', resources: { requests: { cpu: '100m' } } }],
      volumes: [
        ...datasets.map((dataset) => ({
          name: `d-${dataset}`,
          csi: { driver: 'csi.hearth.storage', volumeAttributes: { dataset } },
        })),
        ...claims.map((claimName) => ({ name: `c-${claimName}`, persistentVolumeClaim: { claimName } })),
      ],
      ...fields.spec,
    },
  };
}
