import assert from 'node:assert/strict';
import { silentLogger } from '@hearth/common';
import { kinds, type Pod, Reflector } from '@hearth/common/kubernetes';
import { until } from '@hearth/common/testing';
import { AgentDirectory } from '../../agents/index.ts';
import { FakeAgent, nodeStatus } from '../../agents/testing/fake_agent.ts';
import { agentName, planCertificates } from '../../certificates/index.ts';
import { agentDataset, residency } from '../../dataset/testing/fixtures.ts';
import { GateCluster, type GateReplica, isGated, megabyte, planOf, podObject } from './gate_cluster.ts';

const pods = 100;
const nodes = Array.from({ length: 10 }, (_, index) => `n${index}`);
/** Answers everything at once: all bytes are everywhere. */
async function warmAgent(texts: Awaited<ReturnType<typeof planCertificates>>['texts']): Promise<FakeAgent> {
  const agent = await FakeAgent.start(nodes[0] as string, texts.agent, {
    measureFiles: () => ({ files: 1n, bytes: BigInt(megabyte) }),
    pin: (request) => ({ nodes: request.nodes, failures: [] }),
    listPins: () => ({ pins: [] }),
    releasePins: () => ({ pins: [] }) as never,
  });
  const bytes = BigInt(megabyte);
  agent.publish({
    cluster: 'main',
    nodes: nodes.map((node) => nodeStatus(node, { budgetBytes: 1n << 40n, residentBytes: { 'default.model': bytes } })),
    datasets: [agentDataset({ name: 'default.model', bytes, residency: nodes.map((node) => residency(node, bytes)) })],
  });
  return agent;
}

/**
 * The API server with the chart's webhook, rights and policies, a replica of the operator that leads, and an agent that has
 * all bytes on all nodes: pods that ask for them wait for nothing but the gate's own way.
 */
export class HundredPods {
  readonly #cluster: GateCluster;
  readonly #replica: GateReplica;
  readonly #agent: FakeAgent;
  readonly #directory: AgentDirectory;
  readonly #ending = new AbortController();
  /** When the watch reported that a pod has no gate of ours, by name. */
  readonly #opened = new Map<string, number>();

  private constructor(cluster: GateCluster, replica: GateReplica, agent: FakeAgent, directory: AgentDirectory) {
    this.#cluster = cluster;
    this.#replica = replica;
    this.#agent = agent;
    this.#directory = directory;
  }

  /** In a cluster of its own, which ends with it. */
  static async start(cluster: GateCluster): Promise<HundredPods> {
    const { texts } = await planCertificates({ cluster: 'main', peers: [] }, {}, new Date());
    const agent = await warmAgent(texts);
    const { operator } = texts;
    const identity = {
      certificate: operator['tls.crt'] ?? '',
      key: operator['tls.key'] ?? '',
      authorities: operator['ca.crt'] ?? '',
      serverName: agentName('main'),
    };
    const directory = new AgentDirectory(silentLogger);
    directory.configure('main', identity, [agent.endpoint]);
    for (const node of nodes) await cluster.node(node);
    const replica = await cluster.replica('one', { agents: directory });
    const started = new HundredPods(cluster, replica, agent, directory);
    await started.#begin().catch(async (error) => {
      await started.stop();
      throw error;
    });
    return started;
  }

  async #begin(): Promise<void> {
    const replica = this.#replica;
    await this.#cluster.askAt(await replica.listening());
    await until('it leads and may be asked', () => replica.election.isLeader && replica.reasons.length === 0);
    await this.#cluster.dataset('model', { mode: 'Wait' });
    const watched = new Reflector({
      api: this.#cluster.api,
      type: kinds.Pod,
      namespace: 'default',
      project: (pod: Pod) => ({ gated: isGated(pod), planned: planOf(pod) !== '' }),
      logger: silentLogger,
    });
    watched.onChange((key, before, after) => {
      if (before?.gated === true && after?.gated === false)
        this.#opened.set(key.replace('default/', ''), performance.now());
    });
    watched.start(this.#ending.signal);
    await watched.synced();
    await until('pods are gated', async () => {
      await this.#cluster.api.delete(kinds.Pod, 'probe', 'default', { gracePeriodSeconds: 0 });
      await this.#cluster.api.create(kinds.Pod, podObject('probe', { datasets: ['model'] }));
      return planOf(await this.#cluster.pod('probe')) !== '';
    });
    await this.#cluster.released('probe');
  }

  async stop(): Promise<void> {
    this.#ending.abort();
    await this.#cluster.stop();
    await this.#directory.close();
    this.#agent.kill();
  }

  /** Makes them and removes them. Of all: from the answer to their creation until the watch reported them open, ms. */
  async measure(make: (index: number) => Pod): Promise<number[]> {
    this.#opened.clear();
    const answered = new Map<string, number>();
    await Promise.all(
      Array.from({ length: pods }, async (_, index) => {
        const pod = await this.#cluster.api.create(kinds.Pod, make(index));
        answered.set(pod.metadata?.name ?? '', performance.now());
        assert.ok(isGated(pod), 'it was gated when it was made');
      }),
    );
    await until('all are open', () => this.#opened.size >= pods);
    const times = [...answered].map(([name, at]) => Math.max(0, (this.#opened.get(name) ?? Number.NaN) - at));
    await this.#cluster.clear();
    await this.#cluster.dataset('model', { mode: 'Wait' });
    return times;
  }
}

export const groups: Record<string, (index: number) => Pod> = {
  'of one controller': (index) => {
    const owner = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'web', uid: 'a-uid', controller: true };
    const metadata = { name: `web-${index}`, namespace: 'default', ownerReferences: [owner] };
    return podObject(`web-${index}`, { datasets: ['model'] }, { metadata });
  },
  'of a hundred groups': (index) => podObject(`web-${index}`, { datasets: ['model'] }),
};

function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil((sorted.length * share) / 100) - 1)] ?? 0;
}

// For `make bench`: seconds until 95 of a hundred pods have open gates, of the slower kind of groups.
if (import.meta.main) {
  const measured = await HundredPods.start(await GateCluster.start());
  try {
    const seconds: number[] = [];
    for (const make of Object.values(groups)) seconds.push(percentile(await measured.measure(make), 95) / 1000);
    console.log(Math.max(...seconds));
  } finally {
    await measured.stop();
  }
}
