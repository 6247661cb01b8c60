import assert from 'node:assert/strict';
import { silentLogger } from '@hearth/common';
import { kinds, type Pod, Reflector } from '@hearth/common/kubernetes';
import { AgentDirectory } from '../../../operator/src/agents/index.ts';
import { FakeAgent, nodeStatus } from '../../../operator/src/agents/testing/fake_agent.ts';
import { agentName, planCertificates } from '../../../operator/src/certificates/index.ts';
import { agentDataset, residency } from '../../../operator/src/dataset/testing/fixtures.ts';
import { until } from '../../src/command.ts';
import { GateCluster, type GateReplica, isGated, megabyte, planOf, podObject } from './fixture.ts';

const pods = 100;
const nodes = Array.from({ length: 10 }, (_, index) => `n${index}`);
/** What is promised, ms. */
const promisedMs = 1_000;
/** A machine that does other things as well is measured by what updating as many pods at once takes it now. */
const plainUpdates = 5;

/** Answers everything at once: all bytes are everywhere. */
async function warmAgent(texts: Awaited<ReturnType<typeof planCertificates>>['texts']): Promise<FakeAgent> {
  const agent = await FakeAgent.start(nodes[0] as string, texts.agent, {
    measureFiles: () => ({ files: 1n, bytes: BigInt(megabyte) }),
    pin: (request) => ({ nodes: request.nodes, failures: [] }),
    listPins: () => ({ pins: [] }),
    releasePins: () => ({ pins: [] }) as never,
  });
  const bytes = BigInt(megabyte);
  agent.tell({
    cluster: 'main',
    nodes: nodes.map((node) => nodeStatus(node, { budgetBytes: 1n << 40n, residentBytes: { 'default.model': bytes } })),
    datasets: [agentDataset({ name: 'default.model', bytes, residency: nodes.map((node) => residency(node, bytes)) })],
  });
  return agent;
}

describe('gates of a hundred pods whose bytes are there', () => {
  let cluster: GateCluster;
  let replica: GateReplica;
  let agent: FakeAgent;
  const directory = new AgentDirectory(silentLogger);
  const ending = new AbortController();
  /** When the watch told that a pod has no gate of ours, by name. */
  const opened = new Map<string, number>();

  before(async function () {
    cluster = await GateCluster.start(this);
    const texts = (await planCertificates({ cluster: 'main', peers: [] }, {}, new Date())).texts;
    agent = await warmAgent(texts);
    const { operator } = texts;
    const identity = {
      certificate: operator['tls.crt'] ?? '',
      key: operator['tls.key'] ?? '',
      authorities: operator['ca.crt'] ?? '',
      serverName: agentName('main'),
    };
    directory.configure('main', identity, [agent.endpoint]);
    for (const node of nodes) await cluster.node(node);
    replica = await cluster.replica('one', { agents: directory });
    await cluster.askAt(await replica.listening());
    await until('it leads and may be asked', () => replica.election.isLeader && replica.reasons.length === 0);
    await cluster.dataset('model', { mode: 'Wait' });
    const watched = new Reflector({
      api: cluster.api,
      type: kinds.Pod,
      namespace: 'default',
      project: (pod: Pod) => ({ gated: isGated(pod), planned: planOf(pod) !== '' }),
      logger: silentLogger,
    });
    watched.onChange((key, before, after) => {
      if (before?.gated === true && after?.gated === false) opened.set(key.replace('default/', ''), performance.now());
    });
    watched.start(ending.signal);
    await watched.synced();
    await until('pods are gated', async () => {
      await cluster.api.delete(kinds.Pod, 'probe', 'default', { gracePeriodSeconds: 0 });
      await cluster.api.create(kinds.Pod, podObject('probe', { datasets: ['model'] }));
      return planOf(await cluster.pod('probe')) !== '';
    });
    await cluster.released('probe');
  });
  afterEach(async () => {
    opened.clear();
    await cluster.clear();
    await cluster.dataset('model', { mode: 'Wait' });
  });
  after(async () => {
    ending.abort();
    await cluster?.stop();
    await directory.close();
    agent?.kill();
  });

  /** Of all pods: from the answer to their creation until the watch told that they are open, ms. */
  async function measure(make: (index: number) => Pod): Promise<number[]> {
    opened.clear();
    const answered = new Map<string, number>();
    await Promise.all(
      Array.from({ length: pods }, async (_, index) => {
        const pod = await cluster.api.create(kinds.Pod, make(index));
        answered.set(pod.metadata?.name ?? '', performance.now());
        assert.ok(isGated(pod), 'it was gated when it was made');
      }),
    );
    await until('all are open', () => opened.size >= pods, 60_000);
    return [...answered].map(([name, at]) => Math.max(0, (opened.get(name) ?? Number.NaN) - at));
  }

  /** 95th percentile of updating as many pods at once, ms: what this machine can do now. */
  async function plain(): Promise<number> {
    const times = await Promise.all(
      Array.from({ length: pods }, async (_, index) => {
        const began = performance.now();
        const patch = { metadata: { annotations: { touched: 'yes' } } };
        await cluster.api.patch(kinds.Pod, `web-${index}`, 'default', patch, { kind: 'merge' });
        return performance.now() - began;
      }),
    );
    return percentile(times, 95);
  }

  const groups: [string, (index: number) => Pod][] = [
    [
      'of one controller',
      (index) => {
        const owner = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'web', uid: 'a-uid', controller: true };
        const metadata = { name: `web-${index}`, namespace: 'default', ownerReferences: [owner] };
        return podObject(`web-${index}`, { datasets: ['model'] }, { metadata });
      },
    ],
    ['of a hundred groups', (index) => podObject(`web-${index}`, { datasets: ['model'] })],
  ];
  for (const [what, make] of groups) {
    it(`are open within a second, ${what}`, async () => {
      const times = await measure(make);
      const [half, most, longest] = [50, 95, 100].map((share) => Math.round(percentile(times, share)));
      const update = Math.round(await plain());
      const limit = Math.max(promisedMs, plainUpdates * update);
      process.stdout.write(
        `      from creation to the open gate: ${half} ms (p50), ${most} ms (p95), ${longest} ms (longest); ` +
          `a hundred plain updates: ${update} ms (p95); limit ${limit} ms\n`,
      );
      assert.ok((most ?? 0) < limit, `p95 is ${most} ms, more than ${limit} ms`);
    });
  }
});

function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil((sorted.length * share) / 100) - 1)] ?? 0;
}
