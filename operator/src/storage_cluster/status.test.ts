import assert from 'node:assert/strict';
import type { NodeStatus } from '@hearth/common/generated/hearth/v1/control.ts';
import { type NodeState, storageClusters } from '@hearth/common/resources';
import type { ClusterStatus } from '../agents/index.ts';
import { nodeStatus } from '../agents/testing/fake_agent.ts';
import type { Observation } from './observation.ts';
import type { PodState } from './pod_state.ts';
import { clusterStatus, listedStates, nodeStates } from './status.ts';
import { sampleCluster, sampleNode } from './testing/samples.ts';

const pod = (node: string, fields: Partial<PodState> = {}): PodState => ({
  name: `agent-${node}`,
  cluster: 'models',
  component: 'agent',
  group: 'all',
  node,
  hostAddress: '10.0.0.5',
  ready: true,
  running: true,
  deleting: false,
  createdAt: 0,
  configuration: '',
  trouble: undefined,
  ...fields,
});
const told = (nodes: NodeStatus[], connected = true): ClusterStatus => ({
  receivedAt: 0,
  connected,
  nodes: new Map(nodes.map((node) => [node.node, node])),
  datasets: new Map(),
  jobs: new Map(),
  apiDifferences: [],
});
const stateOf = (pods: PodState[], status?: ClusterStatus, node = sampleNode('n1'), now = new Date(0)) =>
  nodeStates({ nodes: [{ facts: node, group: 'all' }], agents: pods, status, namespace: 'sys', now })[0];

describe('state of a node', () => {
  const trouble = { reason: 'ImageNotPulled', message: 'no image' };
  const cases: [what: string, state: NodeState | undefined, reason: string, message: RegExp][] = [
    ['without a pod', stateOf([]), 'NoPod', /no pod/],
    ['that is down', stateOf([], undefined, sampleNode('n1', { ready: false })), 'NodeNotReady', /node itself/],
    [
      'whose pod is in trouble',
      stateOf([pod('n1', { ready: false, running: false, trouble })]),
      'ImageNotPulled',
      /no image/,
    ],
    [
      'whose agent says why it is not ready',
      stateOf([pod('n1', { ready: false })], told([nodeStatus('n1', { ready: false, reason: 'the disk is full' })])),
      'AgentNotReady',
      /^The agent is not ready: the disk is full$/,
    ],
    ['whose agent serves', stateOf([pod('n1', { ready: false })], told([nodeStatus('n1')])), 'Ready', /^$/],
    ['whose agent nobody has heard of, but the kubelet', stateOf([pod('n1')]), 'Ready', /^$/],
    ['while no agent answers', stateOf([pod('n1')], told([nodeStatus('n1', { ready: false })], false)), 'Ready', /^$/],
    [
      'whose pod is being replaced',
      stateOf([pod('n1', { deleting: true }), pod('n1', { ready: false, running: false, trouble })]),
      'ImageNotPulled',
      /no image/,
    ],
  ];
  for (const [what, state, reason, message] of cases) {
    it(what, () => {
      assert.equal(state?.reason, reason);
      assert.equal(state?.ready, reason === 'Ready');
      assert.match(state?.message ?? '', message);
    });
  }

  it('says how to find out why a pod has not started after a minute', () => {
    const starting = pod('n1', {
      ready: false,
      running: false,
      trouble: { reason: 'PodStarting', message: 'starting' },
    });
    const at = (seconds: number) => stateOf([starting], undefined, sampleNode('n1'), new Date(seconds * 1000));
    assert.equal(at(59)?.reason, 'PodStarting');
    assert.equal(at(60)?.reason, 'PodNotStarted');
    assert.match(at(60)?.message ?? '', /`kubectl -n sys describe pod agent-n1` says why/);
  });

  it('is listed first when it is not ready, and at most 500 are', () => {
    const states = Array.from({ length: 600 }, (_, index) => ({
      name: `n${index}`,
      group: 'all',
      ready: index !== 599,
      reason: 'x',
      message: '',
    }));
    const listed = listedStates(states);
    assert.equal(listed.length, 500);
    assert.equal(listed[0]?.name, 'n599');
  });
});

describe('status of a StorageCluster', () => {
  const ready: NodeState = { name: 'n1', group: 'all', ready: true, reason: 'Ready', message: '' };
  const waiting = (name: string, reason: string, message: string): NodeState => ({
    ...ready,
    name,
    ready: false,
    reason,
    message,
  });
  const observed = (fields: Partial<Observation> = {}): Observation =>
    ({
      now: new Date(0),
      certificates: { renewAt: new Date('2026-03-01'), expiresAt: new Date('2026-04-01') },
      foreign: [],
      missing: [],
      store: { endpoints: ['https://10.96.0.7:2379'], ready: true, trouble: undefined, memberLost: false },
      conflicts: [],
      keptBy: [],
      agents: { running: 0, trouble: undefined },
      nodes: [ready],
      status: told([nodeStatus('n1', { budgetBytes: 10n, usedBytes: 4n })]),
      ...fields,
    }) as Observation;
  const conditionOf = (type: string, fields: Partial<Observation> = {}) =>
    clusterStatus(sampleCluster(), observed(fields)).conditions.find((one) => one.type === type);

  it('goes on to name the store that agents use when the one of the spec is refused', () => {
    const cluster = { ...sampleCluster(), status: { store: { ready: true, endpoints: ['https://former:2379'] } } };
    const refused = { kind: 'Move', volumes: ['pvc-1 (claim team/kv)'] } as const;
    const { store, conditions } = clusterStatus(cluster, observed({ refused }));
    assert.deepEqual(store?.endpoints, ['https://former:2379']);
    assert.equal(conditions.find(({ type }) => type === 'StoreData')?.reason, 'MoveRefused');
    assert.equal(conditions[0]?.status, 'True', 'agents serve');
  });

  it('is Ready when everything is, with the sums of what agents say', () => {
    const status = clusterStatus(sampleCluster(), observed());
    assert.deepEqual(
      status.conditions.map(({ type, status: holds }) => [type, holds]),
      [
        ['Ready', 'True'],
        ['Certificates', 'True'],
        ['References', 'True'],
        ['StoreReady', 'True'],
        ['AgentsReady', 'True'],
        ['Placement', 'True'],
        ['NodesReleased', 'True'],
        ['StoreData', 'True'],
        ['DataPath', 'Unknown'],
        ['Budgets', 'Unknown'],
        ['Disks', 'Unknown'],
        ['Holders', 'Unknown'],
        ['Volumes', 'Unknown'],
        ['StoreSpace', 'Unknown'],
        ['ControlApi', 'True'],
      ],
    );
    assert.deepEqual([status.capacityBytes, status.usedBytes, status.nodesReady], [10, 4, 1]);
  });

  it('reports nodes without FUSE or with budgets that their disks cannot hold, and is Ready all the same', () => {
    const capable = (node: string, fuse: boolean, budget: boolean) =>
      nodeStatus(node, {
        capabilities: [
          {
            name: 'fuse',
            ready: fuse,
            reason: fuse ? '' : 'there is no /dev/fuse. Load the module: `modprobe fuse`',
            pods: [],
            podsLeftOut: 0,
          },
          {
            name: 'budget',
            ready: budget,
            reason: budget ? '' : 'the budget of /c is 9 TiB, but 1 TiB is there',
            pods: [],
            podsLeftOut: 0,
          },
        ],
      });
    const status = told([capable('a', true, true), capable('b', false, true), capable('c', true, false)]);
    assert.deepEqual(conditionOf('DataPath', { status }), {
      type: 'DataPath',
      status: 'False',
      reason: 'NoFuse',
      message:
        '1 of 3 nodes cannot mount datasets before they are complete there; complete ones can still be mounted: b: there is no /dev/fuse. Load the module: `modprobe fuse`',
    });
    assert.match(conditionOf('Budgets', { status })?.message ?? '', /^1 of 3 .*: c: the budget of \/c is 9 TiB, but 1/);
    assert.equal(conditionOf('Ready', { status })?.status, 'True');
    const well = told([capable('a', true, true)]);
    assert.deepEqual(
      [conditionOf('DataPath', { status: well })?.status, conditionOf('Budgets', { status: well })?.reason],
      ['True', 'Fit'],
    );
  });

  it('counts outdated holders, and names pods whose mounts were bound again', () => {
    const capable = (node: string, holder: boolean, volumes: boolean) =>
      nodeStatus(node, {
        capabilities: [
          {
            name: 'holder',
            ready: holder,
            reason: holder ? 'release 2' : 'the mount holder is of release 1',
            pods: [],
            podsLeftOut: 0,
          },
          {
            name: 'volumes',
            ready: volumes,
            reason: volumes ? '' : 'pod team/reader had mounts that died',
            pods: [],
            podsLeftOut: 0,
          },
        ],
      });
    const status = told([capable('a', true, true), capable('b', false, true), capable('c', false, false)]);
    assert.deepEqual(conditionOf('Holders', { status }), {
      type: 'Holders',
      status: 'False',
      reason: 'Outdated',
      message:
        '2 of 3 nodes have a mount holder of another release than their agent (it keeps its mounts until its pod is deleted): b: the mount holder is of release 1; c: the mount holder is of release 1',
    });
    assert.match(conditionOf('Volumes', { status })?.message ?? '', /^1 of 3 nodes .*: c: pod team\/reader had mounts/);
    assert.equal(conditionOf('Ready', { status })?.status, 'True');
  });

  it('names pods that keep agents on nodes which have left their node group, and is Ready all the same', () => {
    const keptBy = ['team/a on n1', 'team/b on n2'];
    const condition = conditionOf('NodesReleased', { keptBy });
    assert.deepEqual([condition?.status, condition?.reason], ['False', 'InUse']);
    assert.match(condition?.message ?? '', /mount volumes there: team\/a on n1, team\/b on n2; delete these pods/);
    assert.equal(conditionOf('Ready', { keptBy })?.status, 'True');
  });

  it('says which agents have another control API, and is Ready all the same', () => {
    const status = (...apiDifferences: string[]) => ({ status: { ...told([nodeStatus('n1')]), apiDifferences } });
    assert.deepEqual(conditionOf('ControlApi', status()), {
      type: 'ControlApi',
      status: 'True',
      reason: 'Current',
      message: 'All agents support every feature of the control API that the operator uses',
    });
    assert.deepEqual(conditionOf('ControlApi', status('a lacks x', 'b', 'c', 'd', 'e')), {
      type: 'ControlApi',
      status: 'False',
      reason: 'OtherRelease',
      message: 'a lacks x; b; c and 2 more agents',
    });
    assert.equal(conditionOf('Ready', status('a'))?.status, 'True');
  });

  it('says what agents say of a store that is not ours while none of them is ready', () => {
    const store = { endpoints: ['https://etcd:2379'], ready: false, trouble: undefined, memberLost: false };
    const nodes = [waiting('n1', 'PodNotReady', 'not yet')];
    const trouble = 'n1: etcd at etcd:2379 does not answer';
    const agents = { identity: {}, endpoints: [], known: true, trouble } as unknown as Observation['agents'];
    const condition = conditionOf('StoreReady', { store, nodes, agents, status: undefined });
    assert.equal(condition?.reason, 'StoreUnknown');
    assert.match(condition?.message ?? '', /could report on the store: n1: etcd at etcd:2379 does not answer$/);
  });

  it('keeps the figures and what nodes lack while no agent answers', () => {
    const known = {
      status: 'False',
      reason: 'NoFuse',
      message: 'none',
      observedGeneration: 1,
    } as const;
    const written = ['DataPath', 'ControlApi'].map((type) => ({ ...known, type }));
    const conditions = written.map((one) => ({ ...one, lastTransitionTime: '2026-01-01T00:00:00Z' }));
    const cluster = { ...sampleCluster(), status: { capacityBytes: 7, usedBytes: 3, datasets: 2, conditions } };
    const status = clusterStatus(cluster, observed({ status: told([], false) }));
    assert.deepEqual([status.capacityBytes, status.usedBytes, status.datasets], [7, 3, 2]);
    for (const { type } of written) assert.equal(status.conditions.find((one) => one.type === type)?.reason, 'NoFuse');
    assert.equal(conditionOf('ControlApi', { status: told([], false) })?.reason, 'NotSeen');
  });

  it('calls a start a start, and trouble trouble, which comes first', () => {
    const nodes = ['a', 'b', 'c'].map((name) => waiting(name, 'PodStarting', 'starting'));
    assert.equal(conditionOf('AgentsReady', { nodes })?.reason, 'Starting');
    const all = [...nodes, waiting('z', 'CrashLoop', 'it crashes')];
    const condition = conditionOf('AgentsReady', { nodes: all });
    assert.equal(condition?.reason, 'NodesNotReady');
    assert.equal(condition?.message, '4 of 4 nodes are not ready: z: it crashes; a: starting; b: starting and 1 more');
    assert.equal(conditionOf('AgentsReady', { nodes: [] })?.reason, 'NoNodes');
  });

  it('is Ready with as many agents as there should be: none where a node is not ready itself', () => {
    const down = ['x', 'y'].map((name) => waiting(name, 'NodeNotReady', 'The node itself is not ready'));
    const agents = conditionOf('AgentsReady', { nodes: [ready, ...down] });
    assert.equal(agents?.status, 'True');
    assert.equal(agents?.message, 'All 1 nodes are ready, but for 2 that are not ready themselves: x, y');
    const status = clusterStatus(sampleCluster(), observed({ nodes: [ready, ...down] }));
    assert.deepEqual([status.nodesDesired, status.nodesReady, status.nodes?.length], [1, 1, 3]);
    const none = conditionOf('AgentsReady', { nodes: down });
    assert.deepEqual(
      [none?.status, none?.reason, none?.message],
      ['False', 'NodesNotReady', 'No node is ready itself: x, y'],
    );
    const starting = conditionOf('AgentsReady', { nodes: [waiting('a', 'CrashLoop', 'it crashes'), ...down] });
    assert.equal(starting?.message, '1 of 1 nodes are not ready: a: it crashes');
  });

  it('counts no bytes of agents whose node was deleted', () => {
    const budgets = ['n1', 'gone'].map((node) => nodeStatus(node, { budgetBytes: 10n, usedBytes: 4n }));
    const status = clusterStatus(sampleCluster(), observed({ status: told(budgets) }));
    assert.deepEqual([status.capacityBytes, status.usedBytes], [10, 4]);
  });

  it('has room for the caches of a thousand nodes', () => {
    const nodes = Array.from({ length: 1_000 }, (_, index) => ({ ...ready, name: `n${index}` }));
    const agents = nodes.map(({ name }) => nodeStatus(name, { budgetBytes: 30n << 40n, usedBytes: 20n << 40n }));
    const { capacityBytes, usedBytes } = clusterStatus(sampleCluster(), observed({ nodes, status: told(agents) }));
    assert.ok((capacityBytes ?? 0) > Number.MAX_SAFE_INTEGER);
    storageClusters.status.parse({ conditions: [], capacityBytes, usedBytes });
  });

  it('sums up what fails, in one sentence each', () => {
    const store = {
      endpoints: [],
      ready: false,
      trouble: { reason: 'PodNotScheduled', message: 'No room' },
      memberLost: false,
    };
    const condition = conditionOf('Ready', { store, nodes: [] });
    assert.equal(condition?.reason, 'StorePodNotScheduled');
    assert.match(condition?.message ?? '', /^The store is not ready\. No room\. No node has the labels/);
    assert.equal(conditionOf('StoreReady', { store: undefined })?.reason, 'StoreStarting');
  });

  it('says what it waits for when the spec refers to something that is not there', () => {
    const condition = conditionOf('Ready', { missing: ['Agents wait for Secret s in namespace n; make it'] });
    assert.equal(condition?.reason, 'ReferenceNotFound');
    assert.equal(condition?.message, 'Agents wait for Secret s in namespace n; make it');
  });

  it('reports nodes that belong to others, and names that are taken', () => {
    const takenBy = { cluster: 'older', group: 'g' };
    const conflicts = ['a', 'b', 'c', 'd'].map((node) => ({ node, group: 'all', takenBy }));
    const condition = conditionOf('Placement', { conflicts });
    assert.equal(condition?.reason, 'NodeInAnotherCluster');
    assert.match(
      condition?.message ?? '',
      /^Node a of group all belongs to group g of StorageCluster older;.*and 1 more/,
    );
    const own = conflicts.map((one) => ({ ...one, takenBy: { cluster: 'models', group: 'first' } }));
    assert.equal(conditionOf('Placement', { conflicts: own })?.status, 'True', 'the first group has it, as it should');
    assert.equal(conditionOf('Placement', { foreign: ['ConfigMap x'] })?.reason, 'NameTaken');
  });
});
