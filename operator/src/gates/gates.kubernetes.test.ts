import assert from 'node:assert/strict';
import { kinds } from '@hearth/common/kubernetes';
import { elapse, until } from '@hearth/common/testing';
import {
  claimObject,
  datasetObject,
  GateCluster,
  type GateReplica,
  hostsOf,
  isGated,
  megabyte,
  planOf,
  podObject,
} from './testing/gate_cluster.ts';

const all = BigInt(megabyte);

describe('gated pods on a real API server', () => {
  let cluster: GateCluster;
  let replica: GateReplica;
  let model: string;

  before(async function () {
    cluster = await GateCluster.start(this);
    await cluster.run('garbage-collector-controller');
    await cluster.serving('n1', 'n2', 'n3');
    replica = await cluster.leader('first');
  });
  beforeEach(() => {
    model = cluster.newModel();
  });
  afterEach(() => cluster?.clear());
  after(() => cluster?.stop());

  it('wait for bytes, and go where they are, with their plan beside them', async () => {
    await cluster.dataset(model, { mode: 'Wait' });
    await cluster.apply(podObject('web', { datasets: [model] }));
    const name = planOf(await cluster.pod('web'));
    const preload = await until('a plan', () => cluster.preload(name));
    assert.deepEqual(
      preload.spec.datasets.map((one) => one.name),
      [model],
    );
    // The nodes of the plan follow at once.
    const { nodes: _, ...gated } = preload.spec.placement.gatedPods ?? {};
    assert.deepEqual(gated, {
      gate: { mode: 'Wait', minPercent: 100, timeout: '10m', affinity: 'Preferred', readyWhen: 'Stored' },
      group: 'Pod/web',
    });
    assert.deepEqual(
      preload.metadata.ownerReferences?.map(({ kind, name: owner }) => [kind, owner]),
      [['Pod', 'web']],
    );
    const waiting = await cluster.event('web', /GateWaiting/);
    const node = /n[123]/.exec(waiting)?.[0] ?? '';
    cluster.agents.hold(node, `default.${model}`, all / 2n, all);
    await elapse(1_500, 'it would be released');
    assert.ok(isGated(await cluster.pod('web')), 'half is not all');
    cluster.agents.hold(node, `default.${model}`, all);
    const pod = await cluster.released('web');
    assert.deepEqual(hostsOf(pod), [`host-${node}`]);
    assert.equal(pod.spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution, undefined);
    assert.match(
      await cluster.event('web', /GateWarm/),
      /^Normal GateWarm: the pod starts where its bytes are: n[123]; it waited \d+ s$/,
    );
    await cluster.kubectl('delete', 'pod', 'web', '--grace-period=0', '--force');
    await until('the plan has gone with its pod', async () => (await cluster.preload(name)) === undefined);
  });

  it('wait as far as asked, and are bound to every node that holds the bytes when asked', async () => {
    await cluster.dataset(model, { mode: 'Wait', minPercent: 40, affinity: 'Required' });
    for (const node of ['n1', 'n3']) cluster.agents.hold(node, `default.${model}`, all / 2n, all);
    const zone = { matchExpressions: [{ key: 'kubernetes.io/os', operator: 'NotIn', values: ['windows'] }] };
    const affinity = {
      nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [zone] } },
    };
    await cluster.apply(podObject('web', { datasets: [model] }, { spec: { affinity } }));
    const pod = await cluster.released('web');
    const [term] =
      pod.spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
    assert.deepEqual(term?.matchExpressions?.[0], zone.matchExpressions[0], 'its own requirement stays');
    assert.ok(
      hostsOf(pod).length >= 1 && hostsOf(pod).every((host) => ['host-n1', 'host-n3'].includes(host)),
      hostsOf(pod).join(),
    );
  });

  it('come with their Dataset and claim in one apply, in any order', async () => {
    await cluster.apply(
      podObject('web', { claims: ['models'] }),
      claimObject('models', model),
      datasetObject(model, { mode: 'Wait' }),
    );
    assert.ok(isGated(await cluster.pod('web')));
    await cluster.resolved(model);
    cluster.agents.hold('n2', `default.${model}`, all);
    assert.deepEqual(hostsOf(await cluster.released('web')), ['host-n2']);
  });

  it('are let go when what they waited for proves none of ours, or never comes', async () => {
    await cluster.apply(podObject('late', { claims: ['disk'] }), claimObject('disk', undefined));
    await cluster.apply(podObject('never', { claims: ['missing'] }));
    assert.ok(isGated(await cluster.pod('never')), 'provisionally');
    await cluster.released('late');
    await cluster.released('never');
    assert.match(await cluster.event('never', /GateNoDataset/), /none of its volumes is one of a Dataset/);
    assert.deepEqual(await cluster.preloads(), []);
  });

  it('keep gates of others', async () => {
    await cluster.dataset(model, { mode: 'Wait' });
    cluster.agents.hold('n1', `default.${model}`, all);
    const foreign = { name: 'example.com/quota' };
    await cluster.apply(podObject('web', { datasets: [model] }, { spec: { schedulingGates: [foreign] } }));
    const pod = await cluster.released('web');
    assert.deepEqual(pod.spec?.schedulingGates, [foreign]);
    assert.deepEqual(hostsOf(pod), ['host-n1']);
  });

  it('wait for another node when the one that is being warmed is lost', async () => {
    await cluster.dataset(model, { mode: 'Wait' });
    await cluster.apply(podObject('web', { datasets: [model] }));
    const node = /n[123]/.exec(await cluster.event('web', /GateWaiting/))?.[0] ?? '';
    cluster.agents.hold(node, `default.${model}`, all / 2n, all);
    cluster.agents.lose(node);
    await elapse(2_000, 'it would be released');
    assert.ok(isGated(await cluster.pod('web')));
    const others = ['n1', 'n2', 'n3'].filter((one) => one !== node);
    for (const one of others) cluster.agents.hold(one, `default.${model}`, all);
    const hosts = hostsOf(await cluster.released('web'));
    cluster.agents.serve(node);
    assert.equal(hosts.length, 1);
    assert.ok(others.map((one) => `host-${one}`).includes(hosts[0] ?? ''), hosts.join());
  });

  it('that only prefer begin at once', async () => {
    await cluster.dataset(model, { mode: 'Prefer' });
    cluster.agents.hold('n2', `default.${model}`, all / 4n, all);
    await cluster.apply(podObject('web', { datasets: [model] }));
    const pod = await cluster.released('web');
    assert.deepEqual(hostsOf(pod), ['host-n2']);
    await until('its plan: warming goes on', () => cluster.preload(planOf(pod)));
  });

  it('begin at once where no node could ever take them', async () => {
    await cluster.dataset(model, { mode: 'Wait' });
    const spec = { nodeSelector: { 'example.com/gpu': 'h200' } };
    await cluster.apply(podObject('web', { datasets: [model] }, { spec }));
    const pod = await cluster.released('web');
    assert.deepEqual(hostsOf(pod), []);
    assert.match(await cluster.event('web', /GateNoFeasibleNode/), /^Warning .* starts without waiting: /);
  });

  it('begin when the time of their gate is over, where most of the bytes are', async () => {
    // It waits for some seconds before it is reported to wait.
    await cluster.dataset(model, { mode: 'Wait', timeout: '30s' });
    await cluster.apply(podObject('web', { datasets: [model] }));
    const node = /n[123]/.exec(await cluster.event('web', /GateWaiting/))?.[0] ?? '';
    cluster.agents.hold(node, `default.${model}`, all / 3n, all);
    const pod = await cluster.released('web');
    assert.deepEqual(hostsOf(pod), [`host-${node}`]);
    assert.match(
      await cluster.event('web', /GateTimedOut/),
      /^Warning GateTimedOut: the pod starts cold, as the time of its gate \(30s\) is over/,
    );
    assert.equal(await replica.metric('hearth_gate_released_total{reason="TimedOut"}'), 1);
  });

  it('begin when their gate is removed, or their plan', async () => {
    await cluster.dataset(model, { mode: 'Wait' });
    await cluster.apply(podObject('changed', { datasets: [model] }));
    await until('a plan', async () => (await cluster.preloads()).length === 1);
    await cluster.apply(datasetObject(model, { mode: 'Off' }));
    await cluster.released('changed');
    await cluster.apply(datasetObject(model, { mode: 'Wait' }));
    await cluster.apply(podObject('deleted', { datasets: [model] }));
    const name = planOf(await cluster.pod('deleted'));
    await until('a plan', () => cluster.preload(name));
    await cluster.event('deleted', /GateWaiting/);
    await cluster.kubectl('delete', 'cachepreload', name);
    await cluster.released('deleted');
    await cluster.event('deleted', /Normal GateWithdrawn: .* its CachePreload was deleted/);
  });

  it('that were given our gate by hand are not left behind', async () => {
    const mine = { schedulingGates: [{ name: 'hearth.storage/preload' }] };
    await cluster.apply(podObject('stray', {}, { spec: mine }));
    await cluster.released('stray');
    await cluster.event('stray', /GateNoPlan: .* somebody gave it the gate by hand/);
  });

  it('are let go where a quota leaves no room for their plan', async () => {
    await cluster.dataset(model, { mode: 'Wait' });
    const metadata = { name: 'no-plans', namespace: 'default' };
    const hard = { 'count/cachepreloads.hearth.storage': '0' };
    await cluster.apply({ apiVersion: 'v1', kind: 'ResourceQuota', metadata, spec: { hard } });
    // Its usage is counted by a controller that does not run.
    const status = { hard, used: { 'count/cachepreloads.hearth.storage': '0' } };
    await cluster.kubectl(
      'patch',
      'resourcequota',
      'no-plans',
      '--subresource=status',
      '--type=merge',
      '-p',
      JSON.stringify({ status }),
    );
    await cluster.apply(podObject('web', { datasets: [model] }));
    await cluster.released('web');
    await cluster.event('web', /Warning GateNoPlan: .* the API server refuses its CachePreload: .* exceeded quota/);
    await cluster.kubectl('delete', 'resourcequota', 'no-plans');
  });

  it('that are deleted while they wait take their plan with them', async () => {
    await cluster.dataset(model, { mode: 'Wait' });
    await cluster.apply(podObject('web', { datasets: [model] }));
    await until('a plan', async () => (await cluster.preloads()).length === 1);
    await cluster.kubectl('delete', 'pod', 'web', '--grace-period=0', '--force');
    await until('it has gone', async () => (await cluster.preloads()).length === 0);
  });

  it('are not gated while the operator is away, and those that are find their time over by the next leader', async () => {
    // Longer than it takes to end the replica that would release it.
    await cluster.dataset(model, { mode: 'Wait', timeout: '20s' });
    await cluster.apply(podObject('web', { datasets: [model] }));
    assert.ok(isGated(await cluster.pod('web')));
    await until('a plan', async () => (await cluster.preloads()).length === 1);
    await replica.stop();
    await cluster.apply(podObject('cold', { datasets: [model] }));
    assert.equal(isGated(await cluster.pod('cold')), false);
    await elapse(20_500, 'the time of its gate is over');
    assert.ok(isGated(await cluster.pod('web')), 'nobody is there to release it');
    replica = await cluster.replica('second');
    await until('it leads', () => replica.election.isLeader);
    await cluster.released('web');
    await cluster.event('web', /GateTimedOut/);
    await replica.stop();
    replica = await cluster.leader('third');
  });

  it('start without the plan that was deleted while no leader was there', async () => {
    await cluster.dataset(model, { mode: 'Wait' });
    await cluster.apply(podObject('withdrawn', { datasets: [model] }));
    const name = planOf(await cluster.pod('withdrawn'));
    await until('a plan', () => cluster.preload(name));
    await cluster.event('withdrawn', /GateWaiting/);
    await replica.stop();
    await cluster.kubectl('delete', '--wait=false', 'cachepreload', name);
    replica = await cluster.leader('after-deletion');
    await cluster.released('withdrawn');
    await cluster.event('withdrawn', /Normal GateWithdrawn/);
    await until('it goes', async () => (await cluster.preload(name)) === undefined);
    await elapse(1_000, 'another plan would be made');
    assert.equal(await cluster.preload(name), undefined);
  });

  it('find their plan again with the next leader, in its spec alone', async () => {
    await cluster.dataset(model, { mode: 'Wait' });
    await cluster.apply(podObject('web', { datasets: [model] }));
    const name = planOf(await cluster.pod('web'));
    const nodes = async () => (await cluster.preload(name))?.spec.placement.gatedPods?.nodes;
    const [node] = await until('its node is written', async () => {
      const written = await nodes();
      return written?.length === 1 && written;
    });
    const { uid, generation } = (await cluster.preload(name))?.metadata ?? {};
    await replica.stop();
    // One that a planner which knows of no plan would not choose.
    const other = node === 'n1' ? 'n2' : 'n1';
    const spec = { placement: { gatedPods: { nodes: [other] } } };
    await cluster.api.patch(kinds.CachePreload, name, 'default', { spec }, { kind: 'merge' });
    replica = await cluster.leader('fourth');
    assert.match(await cluster.event('web', new RegExp(`GateWaiting: waiting: ${other} `)), /GateWaiting/);
    cluster.agents.hold(other, `default.${model}`, all);
    assert.deepEqual(hostsOf(await cluster.released('web')), [`host-${other}`]);
    const { metadata } = (await cluster.preload(name)) ?? {};
    assert.deepEqual(
      [metadata?.uid, metadata?.generation],
      [uid, (generation ?? 0) + 1],
      'the plan is as it was found',
    );
  });
});
