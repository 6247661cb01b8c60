import { silentLogger } from '@hearth/common';
import { type KubernetesApi, kinds, type Node, Reflector } from '@hearth/common/kubernetes';
import { agentsLabel } from '@hearth/common/names';
import { until } from '@hearth/common/testing';
import { releaseNamespace as namespace } from '@hearth/common/testing/kubernetes';
import { labelsOf } from '../../operator/src/storage_cluster/names.ts';
import type { AgentHost } from './agent_host.ts';
import { each } from './each.ts';

export const zones = 3;
/** An address of loopback for each node: agents listen on one port. */
const addressOf = (index: number) => `127.1.${1 + Math.floor(index / 250)}.${1 + (index % 250)}`;
const allocatable = { cpu: '64', memory: '512Gi', pods: '250' };

/**
 * Nodes whose kubelets and DaemonSet controller are this process: a node that the operator labels gets an agent's pod, and
 * the pod an agent.
 */
export class SimulatedNodes {
  readonly #api: KubernetesApi;
  readonly #cluster: string;
  readonly #hosts: readonly AgentHost[];
  readonly #labelled: Reflector<Node, boolean>;
  readonly #ending = new AbortController();
  /** By name. */
  readonly #index = new Map<string, number>();
  #made = 0;
  /** Why agents ended at their start, which were started again. */
  readonly failures: string[] = [];

  constructor(api: KubernetesApi, cluster: string, hosts: readonly AgentHost[]) {
    this.#api = api;
    this.#cluster = cluster;
    this.#hosts = hosts;
    const label = agentsLabel(cluster);
    this.#labelled = new Reflector<Node, boolean>({
      api,
      type: kinds.Node,
      project: ({ metadata }) => metadata?.labels?.[label] !== undefined,
      logger: silentLogger,
    });
  }

  get names(): string[] {
    return [...this.#index.keys()];
  }

  async start(): Promise<void> {
    this.#labelled.start(this.#ending.signal);
    await this.#labelled.synced();
  }

  /** Nodes that join, and whose agents serve when this resolves. */
  async join(count: number): Promise<void> {
    await each(count, 8, async () => {
      const index = this.#made++;
      const name = `n${index}`;
      await this.#register(name, index);
      await until(`${name} may run an agent`, () => this.#labelled.get(name));
      await this.#runAgent(name, index);
      this.#index.set(name, index);
    });
  }

  /** A node that goes, with its agent. */
  async leave(name: string): Promise<void> {
    const index = this.#index.get(name) ?? 0;
    this.#index.delete(name);
    await this.#hostOf(index).stop(name);
    await this.#api.delete(kinds.Pod, `agent-${name}`, namespace, { gracePeriodSeconds: 0 });
    await this.#api.delete(kinds.Node, name);
  }

  close(): void {
    this.#ending.abort();
  }

  #hostOf(index: number): AgentHost {
    return this.#hosts[index % this.#hosts.length] as AgentHost;
  }

  async #register(name: string, index: number): Promise<void> {
    const labels = {
      'kubernetes.io/os': 'linux',
      'kubernetes.io/hostname': name,
      'topology.kubernetes.io/zone': `z${index % zones}`,
    };
    const taints = [{ key: 'hearth.storage/agent-not-ready', effect: 'NoSchedule' }];
    await this.#api.create(kinds.Node, { metadata: { name, labels }, spec: { taints } });
    const status = { allocatable, capacity: allocatable, conditions: [{ type: 'Ready', status: 'True' }] };
    await this.#api.patch(kinds.Node, name, undefined, { status }, { kind: 'merge', subresource: 'status' });
    // The controller of nodes, which would take the API server's taint from a node that is ready, does not run.
    await this.#api.patch(kinds.Node, name, undefined, { spec: { taints } }, { kind: 'merge' });
  }

  async #runAgent(node: string, index: number): Promise<void> {
    const name = `agent-${node}`;
    const hostIP = addressOf(index);
    await this.#api.create(kinds.Pod, {
      metadata: { name, namespace, labels: labelsOf(this.#cluster, 'agent', 'all') },
      spec: { nodeName: node, containers: [{ name: 'agent', image: 'none' }] },
    });
    // As a kubelet, which starts a container again that has ended.
    await until(`${name} serves`, async () => {
      try {
        await this.#hostOf(index).start(node, hostIP, `z${index % zones}`);
        return true;
      } catch (error) {
        this.failures.push(String(error));
        return false;
      }
    });
    const conditions = [{ type: 'Ready', status: 'True' }];
    const status = { phase: 'Running', hostIP, podIP: hostIP, conditions };
    await this.#api.patch(kinds.Pod, name, namespace, { status }, { kind: 'merge', subresource: 'status' });
  }
}
