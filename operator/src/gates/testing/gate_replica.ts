import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { type Logger, silentLogger } from '@hearth/common';
import { EventRecorder, type KubernetesApi, LeaderElection } from '@hearth/common/kubernetes';
import { releaseNamespace } from '@hearth/common/testing/kubernetes';
import { Registry } from '@prometheus-io/client';
import type { Agents } from '../../agents/index.ts';
import { PreloadingMetrics, runPreloading } from '../../operator/preloading.ts';
import { allReflectors, createReflectors } from '../../operator/reflectors.ts';
import { WebhookService } from '../../operator/webhook_service.ts';
import { plan } from '../../planner/index.ts';
import { runWebhookController } from '../../webhook/index.ts';
import { GateController } from '../index.ts';
import { TestAgents } from './test_agents.ts';
import { TestExecutor } from './test_executor.ts';

/** As the API server calls the webhook here: nothing translates the addresses of Services. */
export const serverName = 'localhost';

export interface ReplicaOptions {
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
      retrySeconds: 0.3,
    });
    this.#running = this.#run(logger);
  }

  async listening(): Promise<number> {
    return (await this.#port) ?? 0;
  }

  /** Reasons why the API server may not ask it yet; none when it may. */
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
    readiness.podGroups = gates.podGroups;
    await gates.run(term);
  }
}
