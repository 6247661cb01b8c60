import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import { kinds } from '@hearth/common/kubernetes';
import { elapse, steady, until } from '@hearth/common/testing';
import { FakeAgent, nodeStatus } from '../agents/testing/fake_agent.ts';
import { namespace, OperatorFixture, type Replica } from './testing/operator_fixture.ts';

const agentLabels = (cluster: string) => ({
  'app.kubernetes.io/name': 'hearth',
  'app.kubernetes.io/component': 'agent',
  'app.kubernetes.io/managed-by': 'hearth-operator',
  'hearth.storage/cluster': cluster,
  'hearth.storage/node-group': 'all',
});
const runningAt = (hostIP: string) => ({
  phase: 'Running',
  hostIP,
  hostIPs: [{ ip: hostIP }],
  conditions: [{ type: 'Ready', status: 'True' }],
});

describe('the operator and StorageClusters, on a real API server', () => {
  let fixture: OperatorFixture;
  let operator: Replica;
  const agents: FakeAgent[] = [];

  before(async function () {
    fixture = await OperatorFixture.start(this);
    await fixture.node('n1', { 'topology.kubernetes.io/zone': 'east' });
    await fixture.node('n2');
    operator = await fixture.operator();
  });
  after(async () => {
    for (const agent of agents) agent.kill();
    await fixture?.stop();
  });

  it('makes everything that a StorageCluster is made of', async () => {
    await fixture.cluster('models');
    await fixture.expect('agents', kinds.DaemonSet, 'hearth-models-all-agent');
    await fixture.expect('holders', kinds.DaemonSet, 'hearth-models-all-holder');
    await fixture.expect('the store', kinds.StatefulSet, 'hearth-models-etcd');
    for (const role of ['ca', 'agent', 'operator', 'etcd', 'secret']) {
      await fixture.expect(`the Secret ${role}`, kinds.Secret, `hearth-models-${role}`);
    }
    await fixture.expect('the budget', kinds.PodDisruptionBudget, 'hearth-models-etcd');
    const service = await fixture.expect('the address', kinds.Service, 'hearth-models-etcd');
    const configuration = await fixture.configuration('models');
    assert.ok(configuration.data?.['agent.yaml']?.includes(`etcd://${service.spec?.clusterIP}:2379/models?`));
    const told = await fixture.expect(
      'a status',
      kinds.StorageCluster,
      'models',
      ({ status }) => status?.nodesDesired === 2,
    );
    assert.deepEqual(
      told.status?.nodes?.map(({ name, reason }) => [name, reason]),
      [
        ['n1', 'NoPod'],
        ['n2', 'NoPod'],
      ],
    );
  });

  it('reports why agents are not ready', async () => {
    const terminated = { exitCode: 8, message: 'hearth: the cache directory /var/cache/hearth is too small\n' };
    await fixture.pod('agent-n1', agentLabels('models'), 'n1', {
      phase: 'Running',
      hostIP: '127.0.0.2',
      containerStatuses: [
        {
          name: 'agent',
          image: 'none',
          imageID: '',
          ready: false,
          restartCount: 3,
          state: { waiting: { reason: 'CrashLoopBackOff', message: 'back-off' } },
          lastState: { terminated },
        },
      ],
    });
    await until('the reason is told', async () => {
      const condition = await fixture.condition('models', 'AgentsReady');
      return (
        condition?.message.includes(
          'n1: The process of the pod ended with code 8: the cache directory /var/cache/hearth is too small',
        ) ?? false
      );
    });
    assert.equal((await fixture.condition('models', 'Ready'))?.status, 'False');
  });

  it('hears of the agents, writes NodeCaches, removes the startup taint and reports zones', async () => {
    const secret = await fixture.expect('the Secret', kinds.Secret, 'hearth-models-agent');
    const texts = Object.fromEntries(
      Object.entries(secret.data ?? {}).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]),
    );
    const zones: unknown[] = [];
    for (const [index, node] of ['n1', 'n2'].entries()) {
      const host = `127.0.0.${index + 2}`;
      const answers = {
        configureNode: (request: object) => {
          zones.push([node, request]);
          return {};
        },
      };
      agents.push(await FakeAgent.start(node, texts, answers, { host, port: 7528 }));
      if (node === 'n1') await fixture.podStatus('agent-n1', { ...runningAt(host), containerStatuses: null });
      else await fixture.pod('agent-n2', agentLabels('models'), node, runningAt(host));
    }
    const passthrough = { name: 'passthrough', ready: false, reason: 'the kernel is older than 6.9' };
    // Its agents know of a pod whose mount died.
    const pod = { namespace, name: 'reader', uid: 'an id of a pod', reboundAt: '2026-01-01T00:00:00.000Z' };
    const capabilities = [
      { ...passthrough, pods: [], podsLeftOut: 0 },
      {
        name: 'volumes',
        ready: false,
        reason: `pod ${namespace}/reader had mounts that died`,
        pods: [pod],
        podsLeftOut: 0,
      },
    ];
    const nodes = ['n1', 'n2'].map((node) =>
      nodeStatus(node, {
        budgetBytes: 1000n,
        usedBytes: 400n,
        residentBytes: { 'ns.a': 300n, 'ns.b': 100n },
        capabilities,
      }),
    );
    for (const agent of agents) agent.publish({ nodes });
    await fixture.api.patch(
      kinds.StatefulSet,
      'hearth-models-etcd',
      namespace,
      { status: { replicas: 1, readyReplicas: 1 } },
      { kind: 'merge', subresource: 'status' },
    );

    const ready = await fixture.expect(
      'Ready',
      kinds.StorageCluster,
      'models',
      ({ status }) =>
        status?.conditions?.find(({ type }) => type === 'Ready')?.status === 'True' && status.capacityBytes === 2000,
    );
    assert.equal(ready.status?.nodesReady, 2);
    assert.equal(ready.status?.usedBytes, 800);
    assert.equal(ready.status?.store?.ready, true);
    const cache = await fixture.expect('a NodeCache', kinds.NodeCache, 'n1', ({ status }) => status?.ready === true);
    assert.equal(cache.metadata.ownerReferences?.[0]?.name, 'models');
    assert.deepEqual(
      cache.status?.datasets?.map(({ namespace: within, name, residentBytes }) => [within, name, residentBytes]),
      [
        ['ns', 'a', 300],
        ['ns', 'b', 100],
      ],
    );
    assert.deepEqual(cache.status?.capabilities?.[0], passthrough);
    assert.equal(cache.status?.percent, 40);
    for (const name of ['n1', 'n2']) {
      // The API server has put a taint of its own there, as no controller says that the node is ready.
      const node = await fixture.expect(
        'the taint has gone',
        kinds.Node,
        name,
        ({ spec }) => spec?.taints?.every(({ key }) => key !== 'hearth.storage/agent-not-ready') ?? false,
      );
      assert.ok(node.spec?.taints?.some(({ key }) => key === 'other'));
    }
    await until('the pod is told', async () => {
      const events = await fixture.api.list(kinds.CoreEvent, { namespace });
      return events.items.some(
        ({ reason, involvedObject }) => reason === 'VolumeRebound' && involvedObject.name === 'reader',
      );
    });
    await fixture.expect('it stands in the NodeCache', kinds.NodeCache, 'n1', ({ status }) =>
      isDeepStrictEqual(status?.reboundPods, [{ namespace, name: 'reader', uid: pod.uid, at: pod.reboundAt }]),
    );
    await until('the zone is told', () => zones.length > 0);
    assert.deepEqual(zones[0], ['n1', { zone: 'east', rack: '' }]);
    // As agents do once they have been notified.
    const placed = [{ ...(nodes[0] as object), zone: 'east' }, nodes[1]] as typeof nodes;
    for (const agent of agents) agent.publish({ nodes: placed });
  });

  it('repairs what others change, and nothing else', async () => {
    const agentSet = 'hearth-models-all-agent';
    const containers = [{ name: 'agent', image: 'registry/other:2' }];
    const patch = { spec: { template: { spec: { containers } } } };
    await fixture.api.apply(kinds.DaemonSet, { metadata: { name: agentSet, namespace }, ...patch } as never, {
      fieldManager: 'somebody',
    });
    await fixture.expect(
      'the image',
      kinds.DaemonSet,
      agentSet,
      ({ spec }) => spec?.template.spec?.containers[0]?.image === 'registry/hearth:1',
    );
    const { metadata } = await fixture.configuration('models');
    await fixture.api.delete(kinds.ConfigMap, metadata?.name ?? '', namespace);
    await fixture.expect(
      'it again',
      kinds.ConfigMap,
      metadata?.name ?? '',
      (now) => now.metadata?.uid !== metadata?.uid,
    );
    const before = await fixture.api.get(kinds.Secret, 'hearth-models-ca', namespace);
    await fixture.api.delete(kinds.Secret, 'hearth-models-agent', namespace);
    await fixture.expect('the Secret again', kinds.Secret, 'hearth-models-agent');
    const after = await fixture.api.get(kinds.Secret, 'hearth-models-ca', namespace);
    assert.equal(after?.metadata?.resourceVersion, before?.metadata?.resourceVersion, 'the authority stays');
  });

  it('follows the spec, and removes what is no longer wanted', async () => {
    const groups = ['all', 'more'].map((name) => ({
      name,
      nodeSelector: { group: name },
      cacheDirectories: [{ path: '/var/cache/hearth' }],
    }));
    const patchGroups = (nodeGroups: object[]) =>
      fixture.api.patch(kinds.StorageCluster, 'models', undefined, { spec: { nodeGroups } }, { kind: 'merge' });
    await patchGroups([{ name: 'all', cacheDirectories: [{ path: '/var/cache/hearth' }] }, ...groups.slice(1)]);
    await fixture.expect('the second group', kinds.DaemonSet, 'hearth-models-more-agent');
    const { metadata } = await fixture.configuration('models', 'more');
    await patchGroups([{ name: 'all', cacheDirectories: [{ path: '/var/cache/hearth' }] }]);
    await until('it has gone', async () => {
      const { items } = await fixture.api.list(kinds.DaemonSet, { namespace });
      return items.length === 2;
    });
    await until('its configuration has gone', async () => {
      return (await fixture.api.get(kinds.ConfigMap, metadata?.name ?? '', namespace)) === undefined;
    });
  });

  it('leaves agents the configuration that they were made with, until none of them is left', async () => {
    const old = await fixture.configuration('models');
    const name = old.metadata?.name ?? '';
    const isThere = async () => (await fixture.api.get(kinds.ConfigMap, name, namespace)) !== undefined;
    await fixture.pod('agent-old', agentLabels('models'), 'n9', { phase: 'Pending' }, name);
    const patch = (logLevel: string) =>
      fixture.api.patch(kinds.StorageCluster, 'models', undefined, { spec: { logLevel } }, { kind: 'merge' });
    await patch('debug');
    await until('there is another one', async () => (await fixture.configuration('models')).metadata?.name !== name);
    await elapse(2_000, 'it would be deleted');
    assert.ok(await isThere(), 'the controller of DaemonSets has not seen it');
    const { metadata } = await fixture.expect('agents', kinds.DaemonSet, 'hearth-models-all-agent');
    const status = {
      observedGeneration: metadata?.generation,
      currentNumberScheduled: 0,
      numberMisscheduled: 0,
      desiredNumberScheduled: 0,
      numberReady: 0,
    };
    await fixture.api.patch(
      kinds.DaemonSet,
      'hearth-models-all-agent',
      namespace,
      { status },
      { kind: 'merge', subresource: 'status' },
    );
    await elapse(2_000, 'it would be deleted');
    assert.ok(await isThere(), 'a pod reads it');
    const changed = fixture.api.patch(
      kinds.ConfigMap,
      name,
      namespace,
      { data: { 'agent.yaml': '' } },
      { kind: 'merge' },
    );
    await assert.rejects(changed, /immutable/);
    await fixture.api.delete(kinds.Pod, 'agent-old', namespace, { gracePeriodSeconds: 0 });
    await until('nobody reads it', async () => !(await isThere()));
    await patch('info');
    await until('the first again', isThere);
  });

  it('writes nothing after a restart', async () => {
    // Figures are written at most every ten seconds.
    const before = await steady('what is written', 12_000, () => fixture.versions());
    await operator.stop();
    operator = await fixture.operator();
    await until('it leads', async () => (await operator.ready()).isLeader());
    await until(
      'it hears of agents',
      async () => (await operator.ready()).agents.get('models')?.status?.connected === true,
    );
    await elapse(3_000, 'it would write');
    assert.deepEqual(await fixture.versions(), before);
  });

  it('leaves a node to the older of two StorageClusters, and says so', async () => {
    await fixture.node('n3', { special: 'yes' }, false);
    await elapse(1_100, 'ages are whole seconds');
    const cacheDirectories = [{ path: '/var/cache/other' }];
    await fixture.cluster('second', {
      nodeGroups: [{ name: 'all', nodeSelector: { special: 'yes' }, cacheDirectories }],
    });
    const set = await fixture.expect('its agents', kinds.DaemonSet, 'hearth-second-all-agent');
    const { nodeAffinity } = set.spec?.template.spec?.affinity ?? {};
    assert.deepEqual(nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms.at(-1), {
      matchExpressions: [{ key: 'agents.hearth.storage/second', operator: 'In', values: ['all'] }],
    });
    const { metadata: node } = await fixture.expect(
      'the label of the older one',
      kinds.Node,
      'n3',
      ({ metadata }) => metadata?.labels?.['agents.hearth.storage/models'] === 'all',
    );
    assert.equal(node?.labels?.['agents.hearth.storage/second'] ?? 'None', 'None');
    await until('the condition', async () => (await fixture.condition('second', 'Placement'))?.status === 'False');
    assert.match(
      (await fixture.condition('second', 'Placement'))?.message ?? '',
      /Node n3 of group all belongs to group all of StorageCluster models/,
    );
    assert.equal((await fixture.condition('models', 'Placement'))?.status, 'True');
  });

  it('says what it waits for, and goes on when it comes', async () => {
    const origins = { certificateAuthorities: { name: 'company' } };
    await fixture.cluster('referring', { origins });
    const reason = async () => (await fixture.condition('referring', 'References'))?.reason;
    await until('it is awaited', async () => (await reason()) === 'ReferenceNotFound');
    await fixture.api.create(kinds.ConfigMap, {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'company', namespace },
      data: { 'ca.crt': 'PEM' },
    });
    await until('it is found', async () => (await reason()) === 'Found');
    await fixture.api.delete(kinds.ConfigMap, 'company', namespace);
    await fixture.api.delete(kinds.StorageCluster, 'referring');
    await until('it has gone', async () => (await fixture.api.get(kinds.StorageCluster, 'referring')) === undefined);
  });

  it('removes NodeCaches of nodes that have gone', async () => {
    await fixture.expect('a NodeCache', kinds.NodeCache, 'n3');
    await fixture.api.delete(kinds.Node, 'n3');
    await until('it has gone', async () => (await fixture.api.get(kinds.NodeCache, 'n3')) === undefined);
  });

  it('outlives an API server that is away, and catches up', async () => {
    await fixture.server.down();
    await elapse(12_000, 'every call and watch fails, and its term ends');
    assert.equal(operator.ended, false);
    await fixture.server.up();
    const { metadata } = await fixture.configuration('models');
    await fixture.api.delete(kinds.ConfigMap, metadata?.name ?? '', namespace);
    // Reflectors look again within half a minute.
    await fixture.configuration('models');
  });

  it('has one leader of two replicas, and another one when it goes', async () => {
    const other = await fixture.operator('operator-1');
    const [first, second] = [await operator.ready(), await other.ready()];
    const leading = () => Number(first.isLeader()) + Number(second.isLeader());
    await until('one leads', () => leading() > 0);
    await elapse(2_000, 'the other one would lead too');
    assert.ok(leading() <= 1, 'both lead');
    // A term ends where this process did not run for so long.
    await until('one leads', () => leading() === 1);
    const [leader, waiting] = first.isLeader() ? [operator, second] : [other, first];
    await leader.stop();
    await until('the other leads', () => waiting.isLeader());
    operator = leader === operator ? other : operator;
    const { metadata } = await fixture.configuration('models');
    await fixture.api.delete(kinds.ConfigMap, metadata?.name ?? '', namespace);
    await fixture.configuration('models');
  });

  it('ends a deletion when the pods have gone, and leaves nothing', async () => {
    for (const name of ['models', 'second']) await fixture.api.delete(kinds.StorageCluster, name);
    await until('it says what it waits for', async () => {
      const ready = await fixture.condition('models', 'Ready');
      return ready?.reason === 'Deleting' && ready.message.includes('Pod agent-n1');
    });
    for (const name of ['agent-n1', 'agent-n2']) {
      await fixture.api.delete(kinds.Pod, name, namespace, { gracePeriodSeconds: 0 });
    }
    await until('both have gone', async () => (await fixture.api.list(kinds.StorageCluster)).items.length === 0);
    // The last one belongs to no StorageCluster: csi-node learns from it that there is none.
    const others = ['Node n', 'ConfigMap kube-root', 'ConfigMap hearth-node-groups'];
    const left = Object.keys(await fixture.versions()).filter((key) => !others.some((one) => key.startsWith(one)));
    assert.deepEqual(left, []);
  });
});
