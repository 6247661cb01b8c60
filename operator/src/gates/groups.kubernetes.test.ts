import assert from 'node:assert/strict';
import { kinds, type Pod } from '@hearth/common/kubernetes';
import { elapse, until } from '@hearth/common/testing';
import { claimObject, GateCluster, hostsOf, isGated, megabyte, planOf, podObject } from './testing/gate_cluster.ts';

const all = BigInt(megabyte);

describe('groups of gated pods on a real API server', () => {
  let cluster: GateCluster;
  let model: string;

  before(async function () {
    cluster = await GateCluster.start(this);
    await cluster.run(
      'deployment-controller',
      'replicaset-controller',
      'daemonset-controller',
      'statefulset-controller',
      'job-controller',
      'garbage-collector-controller',
    );
    await cluster.serving('n1', 'n2', 'n3');
    await cluster.leader('first');
  });
  beforeEach(() => {
    model = cluster.newModel();
  });
  afterEach(() => cluster?.clear());
  after(() => cluster?.stop());

  async function podsOf(app: string): Promise<Pod[]> {
    return (await cluster.api.list(kinds.Pod, { namespace: 'default', labelSelector: `app=${app}` })).items;
  }

  it('of a Deployment are planned and released together, on nodes that spread them as they ask', async () => {
    await cluster.dataset(model, { mode: 'Wait' });
    const labels = { app: model };
    const { spec } = podObject('x', { datasets: [model] });
    const spread = {
      maxSkew: 1,
      topologyKey: 'kubernetes.io/hostname',
      whenUnsatisfiable: 'DoNotSchedule',
      labelSelector: { matchLabels: labels },
    };
    await cluster.apply({
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: model, namespace: 'default' },
      spec: {
        replicas: 12,
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: { ...spec, topologySpreadConstraints: [spread] } },
      },
    });
    const list = () => podsOf(model);
    await until('its pods', async () => (await list()).length === 12);
    const pods = await list();
    assert.ok(pods.every(isGated));
    assert.equal(new Set(pods.map(planOf)).size, 1);
    const preload = await until('one plan', async () => (await cluster.preloads())[0]);
    assert.equal((await cluster.preloads()).length, 1);
    assert.match(preload.spec.placement.gatedPods?.group ?? '', /^ReplicaSet\/model-/);
    assert.equal(preload.metadata.ownerReferences?.[0]?.kind, 'ReplicaSet');
    for (const node of ['n1', 'n2']) cluster.agents.hold(node, `default.${model}`, all);
    await elapse(1_500, 'they would be released');
    assert.ok((await list()).every(isGated), 'one of three nodes lacks the bytes');
    cluster.agents.hold('n3', `default.${model}`, all);
    await until('all are released', async () => !(await list()).some(isGated));
    for (const pod of await list()) assert.deepEqual(hostsOf(pod).sort(), ['host-n1', 'host-n2', 'host-n3']);
    await cluster.kubectl('delete', 'deployment', model, '--cascade=foreground', '--wait=false');
    await cluster.kubectl('delete', 'pods', '-l', `app=${model}`, '--grace-period=0', '--force', '--wait=false');
    await until('the plan has gone', async () => (await cluster.preloads()).length === 0);
  });

  it('of a StatefulSet and of an indexed Job are one group each, whatever their claims and names', async () => {
    await cluster.dataset(model, { mode: 'Wait' });
    const { spec: claim } = claimObject('model', model) as { spec: object };
    const template = (app: string) => {
      const { spec } = podObject('x', app === 'set' ? {} : { datasets: [model] });
      return { metadata: { labels: { app } }, spec };
    };
    await cluster.apply(
      {
        apiVersion: 'apps/v1',
        kind: 'StatefulSet',
        metadata: { name: 'set', namespace: 'default' },
        spec: {
          replicas: 3,
          podManagementPolicy: 'Parallel',
          serviceName: 'set',
          selector: { matchLabels: { app: 'set' } },
          volumeClaimTemplates: [{ metadata: { name: 'model' }, spec: claim }],
          template: template('set'),
        },
      },
      {
        apiVersion: 'batch/v1',
        kind: 'Job',
        metadata: { name: 'job', namespace: 'default' },
        spec: {
          completions: 3,
          parallelism: 3,
          completionMode: 'Indexed',
          template: { ...template('job'), spec: { ...template('job').spec, restartPolicy: 'Never' } },
        },
      },
    );
    for (const app of ['set', 'job']) {
      const list = () => podsOf(app);
      await until(`pods of the ${app}`, async () => (await list()).length === 3);
      assert.ok((await list()).every(isGated));
      assert.equal(new Set((await list()).map(planOf)).size, 1, app);
    }
    await until('two plans', async () => (await cluster.preloads()).length === 2);
    for (const node of ['n1', 'n2', 'n3']) cluster.agents.hold(node, `default.${model}`, all);
    await until('all are released', async () => !(await cluster.api.list(kinds.Pod)).items.some(isGated));
  });

  it('of one label are a group, whatever their templates', async () => {
    await cluster.dataset(model, { mode: 'Wait' });
    const labels = { 'hearth.storage/pod-group': 'gang' };
    const member = (name: string, cpu: string) =>
      podObject(
        name,
        { datasets: [model] },
        {
          metadata: { name, namespace: 'default', labels },
          spec: { containers: [{ name: 'main', image: 'none', resources: { requests: { cpu } } }] },
        },
      );
    await cluster.apply(member('leader', '3'), member('worker-0', '30'), member('worker-1', '30'));
    const names = await Promise.all(
      ['leader', 'worker-0', 'worker-1'].map(async (pod) => planOf(await cluster.pod(pod))),
    );
    assert.equal(new Set(names).size, 1);
    await cluster.event('leader', /GateWaiting/);
    for (const node of ['n1', 'n2', 'n3']) {
      assert.ok(isGated(await cluster.pod('leader')));
      cluster.agents.hold(node, `default.${model}`, all);
    }
    for (const name of ['leader', 'worker-0', 'worker-1']) await cluster.released(name);
  });

  it('of a DaemonSet are never gated', async () => {
    await cluster.dataset(model, { mode: 'Wait' });
    const labels = { app: model };
    const { spec } = podObject('x', { datasets: [model] });
    await cluster.apply({
      apiVersion: 'apps/v1',
      kind: 'DaemonSet',
      metadata: { name: model, namespace: 'default' },
      spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
    });
    const pods = await until('its pods', async () => {
      const made = await podsOf(model);
      return made.length === 3 && made;
    });
    assert.ok(!pods.some(isGated));
  });
});
