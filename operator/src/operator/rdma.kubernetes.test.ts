import assert from 'node:assert/strict';
import { kinds } from '@hearth/common/kubernetes';
import { until } from '@hearth/common/testing';
import { FakeAgent, nodeStatus } from '../agents/testing/fake_agent.ts';
import { OperatorFixture } from './testing/operator_fixture.ts';

const host = '127.0.0.21';
const labels = {
  'app.kubernetes.io/name': 'hearth',
  'app.kubernetes.io/component': 'agent',
  'app.kubernetes.io/managed-by': 'hearth-operator',
  'hearth.storage/cluster': 'fast',
  'hearth.storage/node-group': 'all',
};
const groupWith = (rdma: object) => ({
  nodeGroups: [{ name: 'all', cacheDirectories: [{ path: '/var/cache/hearth' }], rdma }],
});

describe('node groups that use RDMA, on a real API server', () => {
  let fixture: OperatorFixture;
  let agent: FakeAgent;

  before(async function () {
    fixture = await OperatorFixture.start(this);
    await fixture.node('n1');
    await fixture.operator();
  });
  after(async () => {
    agent?.kill();
    await fixture?.stop();
  });

  it('are refused where they say what no agent understands', async () => {
    await assert.rejects(fixture.cluster('fast', groupWith({ use: 'sometimes' })), /rdma\.use/);
    await assert.rejects(fixture.cluster('fast', groupWith({ devices: ['mlx5 0'] })), /rdma\.devices/);
    await assert.rejects(fixture.cluster('fast', groupWith({ resource: 'hca' })), /rdma\.resource/);
  });

  it('give their agents devices and settings', async () => {
    const { spec } = await fixture.cluster('fast', groupWith({ devices: ['mlx5_*'] }));
    assert.deepEqual(spec.nodeGroups[0]?.rdma, { use: 'auto', devices: ['mlx5_*'] });
    const set = await fixture.expect('agents', kinds.DaemonSet, 'hearth-fast-all-agent');
    assert.ok(set.spec?.template.spec?.volumes?.some(({ hostPath }) => hostPath?.path === '/dev/infiniband'));
    const { engine } = JSON.parse((await fixture.configuration('fast')).data?.['agent.yaml'] ?? '');
    assert.deepEqual([engine.rdma, engine.rdmaDevices], ['auto', ['mlx5_*']]);
  });

  it('are told by a condition and an event why RDMA is not used, and when it is again', async () => {
    const secret = await fixture.expect('the Secret', kinds.Secret, 'hearth-fast-agent');
    const texts = Object.fromEntries(
      Object.entries(secret.data ?? {}).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]),
    );
    agent = await FakeAgent.start('n1', texts, {}, { host, port: 7528 });
    await fixture.pod('agent-n1', labels, 'n1', {
      phase: 'Running',
      hostIP: host,
      hostIPs: [{ ip: host }],
      conditions: [{ type: 'Ready', status: 'True' }],
    });
    const publish = (reason: string) => {
      const capability = { name: 'rdma-reads', ready: reason === '', reason, pods: [], podsLeftOut: 0 };
      agent.publish({ nodes: [nodeStatus('n1', { capabilities: [capability] })] });
    };
    const told = async (type: string, reason: string) => {
      const { items } = await fixture.api.list(kinds.CoreEvent, {});
      return items.some(
        (event) => event.involvedObject.name === 'fast' && event.type === type && event.reason === reason,
      );
    };
    publish('mlx5_0/1: the port is not active');
    await until('the condition', async () => (await fixture.condition('fast', 'Rdma'))?.status === 'False');
    const { reason, message = '' } = (await fixture.condition('fast', 'Rdma')) ?? {};
    assert.equal(reason, 'NotUsed');
    assert.match(message, /^1 of 1 nodes read .*: n1: mlx5_0\/1: the port is not active$/);
    await until('the warning', () => told('Warning', 'RdmaNotUsed'));
    publish('');
    await until('the condition holds', async () => (await fixture.condition('fast', 'Rdma'))?.status === 'True');
    await until('the event', () => told('Normal', 'RdmaReady'));
  });
});
