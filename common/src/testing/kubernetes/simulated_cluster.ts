import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type KubernetesApi, kinds, type Node, type Pod } from '../../kubernetes/index.ts';
import { DaemonProcess } from '../daemon_process.ts';
import { tool } from '../tool.ts';
import { until } from '../until.ts';
import { Admission } from './admission.ts';
import { TestApiServer } from './api_server.ts';
import { apiOf } from './kubeconfig.ts';

const namespace = 'default';
/** A node that only the probe pod tolerates. It has no labels, so it belongs to no topology domain. */
const probeNode = 'probe';
const probeTaint = { key: 'hearth.test/probe', effect: 'NoExecute' };

/**
 * An API server and the real scheduler with simulated nodes: objects that report ready. Bound pods stay Pending, which
 * suffices for tests of scheduling.
 */
export class SimulatedCluster implements AsyncDisposable {
  readonly api: KubernetesApi;
  readonly #server: TestApiServer;
  readonly #scheduler: DaemonProcess;
  readonly #admission: Admission;
  #probes = 0;

  private constructor(server: TestApiServer, scheduler: DaemonProcess) {
    this.api = apiOf(server.kubeconfig);
    this.#server = server;
    this.#scheduler = scheduler;
    this.#admission = new Admission(server.kubeconfig);
  }

  /** Throws ToolUnavailable where the programs cannot be built. */
  static async start(): Promise<SimulatedCluster> {
    const program = await tool('kube-scheduler');
    // The admission plugin would taint every new node until a controller reports the node ready.
    const server = await TestApiServer.start({ args: ['--disable-admission-plugins=TaintNodesByCondition'] });
    const config = join(server.folder, 'scheduler.json');
    const configuration = {
      apiVersion: 'kubescheduler.config.k8s.io/v1',
      kind: 'KubeSchedulerConfiguration',
      clientConnection: { kubeconfig: server.kubeconfig, qps: 1000, burst: 1000 },
      leaderElection: { leaderElect: false },
      podInitialBackoffSeconds: 1,
      podMaxBackoffSeconds: 1,
    };
    writeFileSync(config, JSON.stringify(configuration));
    const words = [`--config=${config}`, '--secure-port=0'];
    const scheduler = new DaemonProcess(program, words, { log: join(server.folder, 'scheduler.log') });
    return new SimulatedCluster(server, scheduler);
  }

  async createNodes(nodes: readonly Node[]): Promise<void> {
    const allocatable = { cpu: '0', memory: '0', pods: '1000' };
    const probe: Node = { metadata: { name: probeNode }, spec: { taints: [probeTaint] }, status: { allocatable } };
    await Promise.all(nodes.map((node) => this.api.create(kinds.Node, ready(node))));
    // Created last, so that the scheduler knows every other node once it binds the probe.
    await this.api.create(kinds.Node, ready(probe));
  }

  async createPods(pods: readonly Pod[]): Promise<void> {
    await Promise.all(
      pods.map((pod) => this.api.create(kinds.Pod, { ...pod, metadata: { ...pod.metadata, namespace } })),
    );
  }

  async nodes(): Promise<Node[]> {
    const { items } = await this.api.list(kinds.Node);
    return items.filter(({ metadata }) => metadata?.name !== probeNode);
  }

  async pods(): Promise<Pod[]> {
    const { items } = await this.api.list(kinds.Pod, { namespace });
    return items.filter(({ spec }) => spec?.nodeName !== probeNode);
  }

  /**
   * Waits until the scheduler knows all existing nodes and pods; the scheduler learns of objects in order of creation.
   */
  async schedulerKnowsAll(): Promise<void> {
    const name = `probe-${++this.#probes}`;
    await this.createPods([
      {
        metadata: { name },
        spec: {
          containers: [{ name: 'main', image: 'none' }],
          tolerations: [{ key: probeTaint.key, operator: 'Exists' }],
          affinity: {
            nodeAffinity: {
              requiredDuringSchedulingIgnoredDuringExecution: {
                nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: [probeNode] }] }],
              },
            },
          },
        },
      },
    ]);
    await this.settled([name]);
  }

  /** Waits until the scheduler has bound each pod or found no node for it; returns the pods. */
  async settled(names: readonly string[]): Promise<Pod[]> {
    let settled: Pod[] = [];
    await this.#scheduler.until(`the scheduler has decided about ${names.join(', ')}`, async () => {
      const { items } = await this.api.list(kinds.Pod, { namespace });
      settled = items.filter(({ metadata }) => names.includes(metadata?.name ?? ''));
      return (
        settled.length === names.length && settled.every((pod) => pod.spec?.nodeName !== undefined || isRefused(pod))
      );
    });
    return settled;
  }

  async deletePods(names: readonly string[]): Promise<void> {
    await Promise.all(names.map((name) => this.#delete(`/api/v1/namespaces/${namespace}/pods/${name}`)));
  }

  /** Removes all nodes and pods, including pods held by a finalizer. */
  async clear(): Promise<void> {
    const held = (await this.pods()).filter(({ metadata }) => (metadata?.finalizers ?? []).length > 0);
    const patch = { metadata: { finalizers: null } };
    await Promise.all(
      held.map(({ metadata }) => this.api.patch(kinds.Pod, metadata?.name ?? '', namespace, patch, { kind: 'merge' })),
    );
    await this.#delete(`/api/v1/namespaces/${namespace}/pods`);
    await this.#delete('/api/v1/nodes');
    await until('no pods and nodes', async () => {
      const [pods, nodes] = await Promise.all([this.api.list(kinds.Pod, { namespace }), this.api.list(kinds.Node)]);
      return pods.items.length + nodes.items.length === 0;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#scheduler.end();
    await this.#server.stop();
  }

  async #delete(path: string): Promise<void> {
    const { code, body } = await this.#admission.ask('DELETE', `${path}?gracePeriodSeconds=0`);
    if (code >= 300 && code !== 404) throw new Error(`DELETE ${path}: ${code} ${JSON.stringify(body)}`);
  }
}

/** True when the scheduler found no node for the pod. A gated pod has another reason before that. */
export function isRefused({ status }: Pod): boolean {
  return status?.conditions?.some(({ type, reason }) => type === 'PodScheduled' && reason === 'Unschedulable') ?? false;
}

function ready({ status, ...node }: Node): Node {
  const conditions = [{ type: 'Ready', status: 'True', reason: 'Simulated', message: '' }];
  return { ...node, status: { ...status, capacity: status?.allocatable ?? {}, conditions } } as Node;
}
