import assert from 'node:assert/strict';
import { silentLogger } from '@hearth/common';
import { AddDatasetProgress, Dataset } from '@hearth/common/generated/hearth/v1/control.ts';
import { BlackHole, SilentListener } from '@hearth/common/grpc/testing';
import { until } from '@hearth/common/testing';
import { agentName, planCertificates, type SecretRole } from '../certificates/index.ts';
import type { SecretTexts } from '../kubernetes/index.ts';
import type { AgentEndpoint } from './agent_connection.ts';
import { AgentDirectory } from './agent_directory.ts';
import type { ClusterAgents } from './agents.ts';
import { FakeAgent, nodeStatus } from './testing/fake_agent.ts';

const cluster = 'models';
const signal = new AbortController().signal;
const connectMs = 4_000;
/** Longer than a test may take: calls without a bound of their own would wait for it. */
const deadlineMs = 3_600_000;

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
    live.publish({ nodes: [nodeStatus('live')] });
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
  const begin = (boundMs = connectMs) => {
    directory = new AgentDirectory(silentLogger, { connectMs: boundMs });
  };
  beforeEach(() => begin());
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

  const tell = (models: ClusterAgents, node: string) =>
    models.call('configureNode', { zone: 'z', rack: 'r' }, { signal, node, deadlineMs });

  it('fail calls within the bound, by name, address and advice', async () => {
    const models = connect([...lost, live.endpoint]);
    const failing = lost.map(({ node, address }) =>
      assert.rejects(tell(models, node), {
        code: 'Unavailable',
        message: `the agent on ${node} has not taken a connection to ${address} within 4.0 s; look whether its node runs and nothing drops packets to that port`,
      }),
    );
    await Promise.all(failing);
  });

  it('delay calls to no other agent', async () => {
    await directory.close();
    begin(deadlineMs);
    const models = connect([...lost, live.endpoint]);
    let failed = 0;
    const waiting = lost.map(({ node }) => tell(models, node).catch(() => failed++));
    await Promise.all(Array.from({ length: 20 }, () => tell(models, 'live')));
    assert.equal(failed, 0, 'the lost ones are still waited for');
    await directory.close();
    await Promise.all(waiting);
    assert.equal(failed, lost.length);
  });

  it('hold up neither calls nor streams that others can answer', async () => {
    for (const away of lost) {
      const models = connect([away, live.endpoint]);
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
      await directory.forget(cluster);
    }
  });

  it('are not what the status of the cluster waits for', async () => {
    for (const away of lost) {
      // Alone at first, so that it is the one that is asked for the status.
      const models = connect([away]);
      await until('trouble', () => models.trouble !== undefined);
      assert.match(models.trouble ?? '', /^(hole|silent): the agent on \1 has not taken a connection to 127/);
      const told = new Promise<void>((done) => directory.onChange(() => done()));
      connect([away, live.endpoint]);
      await told;
      assert.equal(models.status?.nodes.get('live')?.ready, true);
      await directory.forget(cluster);
    }
  });
});
