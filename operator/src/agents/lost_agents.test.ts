import assert from 'node:assert/strict';
import { silentLogger } from '@hearth/common';
import { AddDatasetProgress, Dataset } from '@hearth/common/generated/hearth/v1/control.ts';
import { BlackHole, SilentListener } from '@hearth/common/grpc/testing';
import { agentName, planCertificates, type SecretRole, type SecretTexts } from '../certificates/index.ts';
import type { AgentEndpoint } from './agent_connection.ts';
import { AgentDirectory } from './agent_directory.ts';
import type { ClusterAgents } from './agents.ts';
import { FakeAgent, nodeStatus } from './testing/fake_agent.ts';

const cluster = 'models';
const signal = new AbortController().signal;
const connectMs = 4_000;
/** What a call takes that waits for its deadline; without a bound of their own they would wait for that. */
const deadlineMs = 300_000;
const boundMs = deadlineMs / 5;

describe('agents whose hosts are lost', () => {
  let texts: Record<SecretRole, SecretTexts>;
  let directory: AgentDirectory;
  let hole: BlackHole;
  let silent: SilentListener;
  let live: FakeAgent;
  let lost: AgentEndpoint[];

  before(async () => {
    texts = (await planCertificates({ cluster, peers: [] }, {}, new Date())).texts;
    hole = await BlackHole.start();
    silent = await SilentListener.start();
    live = await FakeAgent.start('live', texts.agent, {
      getDataset: () => Dataset.fromPartial({ name: 'ns.d' }),
      configureNode: () => ({}),
      addDataset: async function* () {
        yield AddDatasetProgress.fromPartial({ filesListed: 7n });
      },
    });
    live.tell({ nodes: [nodeStatus('live')] });
    lost = [
      { node: 'hole', address: hole.address },
      { node: 'silent', address: silent.address },
    ];
  });
  after(async () => {
    live.kill();
    await silent.stop();
    await hole.stop();
  });
  beforeEach(() => {
    directory = new AgentDirectory(silentLogger, { connectMs });
  });
  afterEach(() => directory.close());

  function connect(endpoints: AgentEndpoint[]): ClusterAgents {
    const identity = {
      certificate: texts.operator['tls.crt'] ?? '',
      key: texts.operator['tls.key'] ?? '',
      authorities: texts.operator['ca.crt'] ?? '',
      serverName: agentName(cluster),
    };
    directory.configure(cluster, identity, endpoints);
    return directory.get(cluster) as ClusterAgents;
  }

  async function elapsed(work: Promise<unknown>): Promise<number> {
    const began = performance.now();
    await work;
    return performance.now() - began;
  }

  it('fail calls within the bound, by name, address and advice, and delay no other agent', async () => {
    const models = connect([...lost, live.endpoint]);
    const tell = (node: string) => models.call('configureNode', { zone: 'z', rack: 'r' }, { signal, node, deadlineMs });
    const failing = lost.map(({ node, address }) =>
      assert.rejects(tell(node), {
        code: 'Unavailable',
        message: `the agent on ${node} has not taken a connection to ${address} within 4.0 s; look whether its node runs and nothing drops packets to that port`,
      }),
    );
    const others = Array.from({ length: 20 }, () => elapsed(tell('live')));
    const times = await Promise.all(failing.map(elapsed));
    assert.ok(Math.max(...times) < boundMs, `${times} ms`);
    assert.ok(Math.max(...(await Promise.all(others))) < Math.min(...times), 'they waited for none that failed');
    // Whoever tries again does not wait again while the attempt goes on.
    for (const { node } of lost) assert.ok((await elapsed(assert.rejects(tell(node)))) < connectMs);
  });

  it('hold up neither calls nor streams that others can answer', async () => {
    for (const away of lost) {
      const models = connect([away, live.endpoint]);
      const began = performance.now();
      const answers = Array.from({ length: 8 }, () =>
        models.call('getDataset', { name: 'ns.d' }, { signal, deadlineMs }),
      );
      const listing = (async () => {
        const request = { name: 'ns.d', source: undefined, include: [], exclude: [], credentials: undefined };
        const seen: bigint[] = [];
        for await (const { filesListed } of models.stream('addDataset', request, { signal, deadlineMs }))
          seen.push(filesListed);
        return seen;
      })();
      assert.deepEqual(await listing, [7n]);
      for (const { name } of await Promise.all(answers)) assert.equal(name, 'ns.d');
      assert.ok(performance.now() - began < boundMs);
      await directory.forget(cluster);
    }
  });

  it('are not what the status of the cluster waits for', async () => {
    for (const away of lost) {
      // Alone at first, so that it is the one that is asked for the status.
      const models = connect([away]);
      const began = performance.now();
      const troubled = new Promise<void>((done) => {
        const timer = setInterval(() => {
          if (models.trouble === undefined) return;
          clearInterval(timer);
          done();
        }, 20);
      });
      await troubled;
      assert.ok(performance.now() - began < boundMs);
      assert.match(models.trouble ?? '', /^(hole|silent): the agent on \1 has not taken a connection to 127/);
      const told = new Promise<void>((done) => directory.onStatus(() => done()));
      connect([away, live.endpoint]);
      assert.ok((await elapsed(told)) < boundMs);
      assert.equal(models.status?.nodes.get('live')?.ready, true);
      await directory.forget(cluster);
    }
  });
});
