import assert from 'node:assert/strict';
import { type NodeStatus, RdmaStatus } from '@hearth/common/generated/hearth/v1/control.ts';
import { FakeAgent, type Script } from '../testing/fake_agent.ts';
import { jsonLines, runCommand } from '../testing/fake_terminal.ts';
import { sampleJob, sampleNode } from '../testing/samples.ts';

const mib = 1n << 20n;
const port = { name: 'mlx5_0/1', link: 'RoCE v2', gid: '10.0.0.7', mtuBytes: 4096, active: true, used: true };
const nodeWith = (bytesReceived: bigint, peerBytesReceived: bigint, more: Partial<NodeStatus> = {}) =>
  sampleNode({
    rdma: RdmaStatus.fromPartial({ use: 'auto', peers: 1, ports: [{ ...port, bytesReceived }] }),
    peerBytesReceived,
    originBytes: 0n,
    ...more,
  });
const statusOf = (node: NodeStatus) => ({
  ...{ cluster: 'test', node: node.node, nodes: [node], datasets: [], jobs: [], mounts: [], volumes: [] },
  ...{ apiVersion: 1, apiFeatures: [] },
});

describe('hearth bench rdma --dataset', () => {
  let agent: FakeAgent | undefined;
  afterEach(async () => {
    await agent?.stop();
    agent = undefined;
  });

  const bench = async (script: Script, ...words: string[]) => {
    agent = await FakeAgent.start({
      getStatus: () => statusOf(nodeWith(5n * mib, 7n * mib)),
      evict: () => ({ nodes: [{ node: 'a', bytesFreed: mib, filesFreed: 1n, filesKept: 0n, message: '' }] }),
      createWarmJob: () => sampleJob({ name: 'j' }),
      watchWarmJob: () => [sampleJob({ name: 'j', state: 'Running' }), ended],
      watchStatus: () => [nodeWith(6n * mib, 8n * mib), nodeWith(95n * mib, 107n * mib)].map(statusOf),
      ...script,
    });
    return await runCommand(['bench', 'rdma', '--socket', agent.socket, '--dataset', 'llama', ...words]);
  };
  const ended = sampleJob({ name: 'j', state: 'Succeeded', secondsToMemory: 0.5 });
  for (const node of ended.nodes) Object.assign(node, { peerBytes: 100n * mib, originBytes: 0n });

  it('reports the speed of reads from other agents, and the share of RDMA', async () => {
    const { code, out } = await bench({}, '--path', '*.safetensors');
    assert.equal(code, 0);
    assert.match(out, /^here {3}a: mlx5_0\/1 \(RoCE v2, 10\.0\.0\.7\), packets of at most 4096 bytes$/m);
    assert.match(out, /^read {3}100\.0 MiB of llama in 0\.500 s, 0\.210 GB\/s$/m);
    assert.match(out, /^path {3}90\.0 MiB by RDMA, 10\.0 MiB over TCP, 0 B from the origin; 0 failures$/m);
    const asked = Object.fromEntries(agent?.requests ?? []);
    assert.deepEqual([asked.evict?.nodes, asked.evict?.paths], [['a'], ['*.safetensors']]);
    assert.deepEqual([asked.createWarmJob?.nodes, asked.createWarmJob?.readyWhen], [['a'], 'memory']);
  });

  it('prints JSON', async () => {
    const [measured] = jsonLines((await bench({}, '--json')).out);
    assert.equal(measured?.bytesPerSecond, Number(200n * mib));
    assert.deepEqual(measured?.port, { name: 'mlx5_0/1', link: 'RoCE v2', gid: '10.0.0.7', mtuBytes: 4096 });
  });

  it('reads nothing where the agent uses no RDMA, and gives the reason', async () => {
    const rdma = RdmaStatus.fromPartial({ use: 'auto', reason: 'the port is not active' });
    const { code, err } = await bench({ getStatus: () => statusOf(nodeWith(0n, 0n, { rdma })) });
    assert.notEqual(code, 0);
    assert.match(err, /reads over TCP: the port is not active/);
    assert.ok(!agent?.requests.some(([name]) => name === 'evict'));
  });

  it('reports bytes that no other agent has', async () => {
    const fromOrigin = sampleJob({ name: 'j', state: 'Succeeded', secondsToMemory: 1 });
    for (const node of fromOrigin.nodes) Object.assign(node, { peerBytes: 0n, originBytes: mib });
    const { err } = await bench({
      watchWarmJob: () => [fromOrigin],
      watchStatus: () => [statusOf(nodeWith(5n * mib, 7n * mib, { originBytes: mib }))],
    });
    assert.match(err, /No other agent has these bytes: run `hearth warm llama --node OTHER` first/);
  });
});
