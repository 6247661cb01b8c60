import assert from 'node:assert/strict';
import type { NodeStatus } from '@hearth/common/generated/hearth/v1/control.ts';
import type { Condition, NodeState } from '@hearth/common/resources';
import type { ClusterStatus } from '../agents/index.ts';
import { nodeStatus } from '../agents/testing/fake_agent.ts';
import { adviceConditions, announcedConditions } from './advice.ts';
import { sampleCluster } from './testing/samples.ts';

describe('the condition Volumes', () => {
  const alive = { name: 'volumes', ready: true, reason: '' };
  const rebound = { ...alive, ready: false, reason: 'pod team/a had mounts that died' };
  const lost = { name: 'lost-volumes', ready: false, reason: 'pod team/b cannot read' };
  const told = (agents: Record<string, (typeof alive)[]>): ClusterStatus => ({
    receivedAt: 0,
    connected: true,
    nodes: new Map(
      Object.entries(agents).map(([node, capabilities]) => [
        node,
        nodeStatus(node, { capabilities: capabilities.map((one) => ({ ...one, pods: [], podsLeftOut: 0 })) }),
      ]),
    ),
    datasets: new Map(),
    jobs: new Map(),
    apiDifferences: [],
  });
  const node = (name: string, ready = true): NodeState => ({ name, group: 'all', ready, reason: '', message: '' });
  const written: Condition = {
    type: 'Volumes',
    status: 'True',
    reason: 'Alive',
    message: 'as before',
    observedGeneration: 1,
    lastTransitionTime: '2026-01-01T00:00:00Z',
  };
  const condition = (status: ClusterStatus | undefined, nodes: NodeState[], before: Condition[] = [written]) => {
    const cluster = { ...sampleCluster(), status: { conditions: before } };
    const found = adviceConditions({ status, nodes }, cluster).find(({ type }) => type === 'Volumes');
    return { status: found?.status, reason: found?.reason, message: found?.message ?? '' };
  };

  it('is alive while all agents serve and none lost a mount', () => {
    const { status, reason } = condition(told({ n1: [alive], n2: [alive] }), [node('n1'), node('n2')]);
    assert.deepEqual([status, reason], ['True', 'Alive']);
  });

  it('names pods whose mounts are dead before those whose mounts are bound again', () => {
    const dead = condition(told({ n1: [rebound], n2: [alive, lost] }), [node('n1'), node('n2')]);
    assert.deepEqual([dead.status, dead.reason], ['False', 'Lost']);
    assert.equal(dead.message, '1 of 2 nodes have pods whose mounts are dead: n2: pod team/b cannot read');
    assert.equal(condition(told({ n1: [rebound] }), [node('n1')]).reason, 'Rebound');
  });

  it('is unknown while an agent does not serve, whatever that agent said before', () => {
    const away = condition(told({ n1: [alive], n2: [alive] }), [node('n1'), node('n2', false)]);
    assert.deepEqual([away.status, away.reason], ['Unknown', 'AgentsNotReady']);
    assert.match(away.message, /do not serve: n2$/);
    assert.equal(condition(undefined, [node('n1', false)]).status, 'Unknown');
  });

  it('stays as it is written while an operator that has just begun has heard of no agent', () => {
    assert.deepEqual(condition(undefined, [node('n1')]), { status: 'True', reason: 'Alive', message: 'as before' });
    assert.equal(condition(undefined, [node('n1')], []).reason, 'NotSeen');
  });
});

describe('the condition Disks', () => {
  const disks = (...reasons: string[]) => {
    const nodes = reasons.map((reason, index): [string, NodeStatus] => {
      const capability = { name: 'cache-directories', ready: reason === '', reason, pods: [], podsLeftOut: 0 };
      return [`n${index}`, nodeStatus(`n${index}`, { capabilities: [capability] })];
    });
    const status = {
      receivedAt: 0,
      connected: true,
      nodes: new Map(nodes),
      datasets: new Map(),
      jobs: new Map(),
      apiDifferences: [],
    };
    return adviceConditions({ status, nodes: [] }, sampleCluster()).find(({ type }) => type === 'Disks');
  };

  it('names nodes with a directory that takes no new files, and is announced', () => {
    assert.equal(disks('', '')?.status, 'True');
    const failing = disks('', '/b takes no new files: Read-only file system');
    assert.deepEqual([failing?.status, failing?.reason], ['False', 'Failing']);
    assert.match(failing?.message ?? '', /^1 of 2 nodes have .*: n1: \/b takes no new files: Read-only file system$/);
    assert.ok(announcedConditions.includes('Disks'));
  });
});

describe('the condition Rdma', () => {
  const nodes: NodeState[] = ['n1', 'n2'].map((name) => ({ name, group: 'all', ready: true, reason: '', message: '' }));
  const directories = [{ path: '/var/cache/hearth' }];
  const asking = sampleCluster({ nodeGroups: [{ name: 'all', cacheDirectories: directories, rdma: {} }] });
  const condition = (cluster: typeof asking, reasons: Record<string, string>) => {
    const reporting = Object.entries(reasons).map(([node, reason]) => {
      const capability = { name: 'rdma-reads', ready: reason === '', reason, pods: [], podsLeftOut: 0 };
      return [node, nodeStatus(node, { capabilities: [capability] })] as const;
    });
    const status = {
      receivedAt: 0,
      connected: true,
      nodes: new Map(reporting),
      datasets: new Map(),
      jobs: new Map(),
      apiDifferences: [],
    };
    return adviceConditions({ status, nodes }, cluster).find(({ type }) => type === 'Rdma');
  };

  it('is there only where a node group asks for RDMA', () => {
    assert.equal(condition(sampleCluster(), {}), undefined);
    assert.equal(condition(asking, {})?.status, 'Unknown');
    assert.equal(condition(asking, { n1: '', n2: '' })?.status, 'True');
  });

  it('names the nodes that do not use RDMA with their reasons', () => {
    assert.deepEqual(condition(asking, { n1: '', n2: 'mlx5_0/1: the port is not active' }), {
      type: 'Rdma',
      status: 'False',
      reason: 'NotUsed',
      message: '1 of 2 nodes read from others over TCP instead of RDMA: n2: mlx5_0/1: the port is not active',
    });
  });
});
