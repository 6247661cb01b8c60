import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { elapse, until } from '@hearth/common/testing';
import { conditionOf, mib, PreloadCluster } from './testing/preload_cluster.ts';

describe('CachePreloads while things go wrong', () => {
  let cluster: PreloadCluster;
  before(async function () {
    cluster = await PreloadCluster.start(this);
    for (const name of ['n1', 'n2', 'n3']) await cluster.addNode(name);
    await cluster.startExecutor();
  });
  after(async () => cluster?.stop());
  beforeEach(() => {
    cluster.origin.failing = false;
    cluster.origin.sentBytes = 0;
  });

  const jobs = async () => (await cluster.status()).jobs.filter(({ name }) => name.startsWith('preload-'));
  const running = async () => (await jobs()).filter(({ state }) => ['Pending', 'Running', 'Verifying'].includes(state));

  it('keep to the limit of their rate from the origin', async () => {
    const size = await cluster.dataset('slow', { 'a.bin': 16 * mib, 'b.bin': 16 * mib });
    cluster.origin.sentBytes = 0;
    const began = performance.now();
    await cluster.preload('slow', { placement: { nodeNames: ['n1', 'n2'] }, rateLimit: { origin: '4Mi' } });
    await cluster.ready('slow');
    const seconds = (performance.now() - began) / 1000;
    await cluster.sentOnce(size);
    // Less a burst of a quarter of a second and one request of 8 MiB on each of two nodes.
    assert.ok(seconds > 3.5, `${seconds} s`);
    await cluster.remove('slow');
    await cluster.removeDataset('slow');
  });

  it('keep to the limit of their rate from other nodes', async () => {
    const size = await cluster.dataset('peers', { 'a.bin': 24 * mib });
    await cluster.hearth.json('n1', 'warm', 'default.peers', '--node', 'n1');
    cluster.origin.sentBytes = 0;
    const began = performance.now();
    await cluster.preload('peers', { placement: { nodeNames: ['n2'] }, rateLimit: { network: '8Mi' } });
    const { status } = await cluster.ready('peers');
    const seconds = (performance.now() - began) / 1000;
    assert.deepEqual([status?.nodes?.[0]?.peerBytes, cluster.origin.sentBytes], [size, 0]);
    assert.ok(seconds > 1.5, `${seconds} s`);
    await cluster.remove('peers');
    await cluster.removeDataset('peers');
  });

  it('end what they began when they are deleted', async () => {
    await cluster.dataset('deleted', { 'a.bin': 32 * mib });
    await cluster.preload('deleted', { placement: { allNodes: true }, rateLimit: { origin: '1Mi' } });
    await cluster.expect('deleted', 'is on its way', ({ status }) => (status?.bytesReady ?? 0) > 0);
    assert.equal((await running()).length, 1);
    await cluster.remove('deleted');
    assert.deepEqual(await running(), []);
    await until('unpinned', async () => {
      const dataset = (await cluster.status()).datasets.find(({ name }) => name === 'default.deleted');
      return dataset?.residency.every(({ pinned }) => !pinned);
    });
    const sent = cluster.origin.sentBytes;
    await elapse(1_500, 'more would be fetched');
    assert.ok(cluster.origin.sentBytes - sent <= 8 * mib, 'nothing more is fetched');
    await cluster.removeDataset('deleted');
  });

  it('go on with another operator, and bring no byte twice', async () => {
    const size = await cluster.dataset('restart', { 'a.bin': 16 * mib, 'b.bin': 16 * mib });
    cluster.origin.sentBytes = 0;
    // Slow enough that the job outlasts the change of operators.
    await cluster.preload('restart', { placement: { replicas: 2 }, rateLimit: { origin: '3Mi' } });
    await cluster.expect('restart', 'is on its way', ({ status }) => (status?.bytesReady ?? 0) > 0);
    const before = (await jobs()).map(({ name }) => name);
    await cluster.executor?.stop();
    await cluster.forgetAgents();
    await elapse(500, 'agents go on without an operator');
    await cluster.startExecutor();
    const { status } = await cluster.ready('restart');
    await cluster.sentOnce(size);
    assert.equal(
      status?.nodes?.reduce((sum, node) => sum + node.originBytes, 0),
      size,
    );
    assert.deepEqual(
      (await jobs()).map(({ name }) => name),
      before,
      'no other job was made',
    );
    await cluster.remove('restart');
    await cluster.removeDataset('restart');
  });

  it('keep what has come when the origin fails, and go on when it is back', async () => {
    const size = await cluster.dataset('flaky', { 'a.bin': 16 * mib, 'b.bin': 16 * mib });
    cluster.origin.sentBytes = 0;
    // Slow enough that it is seen on its way, and that the origin fails before everything is there.
    await cluster.preload('flaky', { placement: { nodeNames: ['n1', 'n2'] }, rateLimit: { origin: '1Mi' } });
    await cluster.expect('flaky', 'is on its way', ({ status }) => (status?.bytesReady ?? 0) > 0);
    cluster.origin.failing = true;
    const failing = await cluster.expect('flaky', 'tells of it', ({ status }) =>
      (status?.waitingFor ?? '').includes('the origin is away'),
    );
    assert.match(failing.status?.waitingFor ?? '', /n[12] \(.*503/);
    assert.ok((failing.status?.bytesReady ?? 0) > 0);
    const ready = conditionOf(failing, 'Ready');
    assert.equal(ready.status, 'False');
    cluster.origin.failing = false;
    await cluster.ready('flaky');
    assert.ok(cluster.origin.sentBytes <= size + 16 * mib, `${cluster.origin.sentBytes} of ${size}`);
    await cluster.remove('flaky');
    await cluster.removeDataset('flaky');
  });

  it('fail when their deadline passes, and keep what is there', async () => {
    await cluster.dataset('late', { 'a.bin': 32 * mib });
    await cluster.preload('late', {
      placement: { nodeNames: ['n1'] },
      rateLimit: { origin: '1Mi' },
      deadline: '15s',
    });
    const failed = await cluster.expect('late', 'Failed', ({ status }) => status?.phase === 'Failed');
    assert.equal(conditionOf(failed, 'Ready').reason, 'DeadlineExceeded');
    assert.equal(conditionOf(failed, 'DeadlineMet').status, 'False');
    await until('its job is cancelled', async () => (await running()).length === 0);
    assert.ok(((await cluster.residency('late')).n1 ?? 0) > 0);
    // A later deadline is a new chance.
    await cluster.preload('late', { placement: { nodeNames: ['n1'] }, deadline: '10m' });
    const late = await cluster.ready('late');
    assert.equal(conditionOf(late, 'DeadlineMet').status, 'True');
    await cluster.remove('late');
    await cluster.removeDataset('late');
  });

  it('release their pins when their ttl is over', async () => {
    await cluster.dataset('ttl', { 'a.bin': mib });
    await cluster.preload('ttl', { placement: { nodeNames: ['n1'] }, ttl: '15s' });
    const ready = await cluster.ready('ttl');
    assert.equal(conditionOf(ready, 'Pinned').status, 'True');
    const expired = await cluster.expect('ttl', 'expires', (one) => conditionOf(one, 'Pinned').reason === 'Expired');
    assert.deepEqual([expired.status?.phase, conditionOf(expired, 'Ready').reason], ['Ready', 'Expired']);
    await until('evicted', async () => {
      await cluster.hearth.json('n1', 'evict', 'default.ttl');
      return (await cluster.residency('ttl')).n1 === 0;
    });
    await elapse(3_000, 'it would be brought again');
    assert.equal((await cluster.get('ttl')).status?.phase, 'Ready', 'it is not brought again');
    assert.equal((await cluster.residency('ttl')).n1, 0);
    await cluster.remove('ttl');
    await cluster.removeDataset('ttl');
  });

  it('follow every revision, and keep the old one until the new one is there', async () => {
    await cluster.dataset('every', { 'a.bin': 2 * mib });
    await cluster.preload('every', { placement: { nodeNames: ['n1', 'n2'] }, revisions: 'Every' });
    const first = (await cluster.ready('every')).status?.revisions?.[0]?.manifest;
    assert.ok(first !== undefined);
    cluster.origin.add('every/a.bin', randomBytes(3 * mib));
    await cluster.kubernetes.kubectl(
      'patch',
      'dataset',
      'every',
      '--type=merge',
      '-p',
      '{"spec":{"refresh":{"interval":"10s"}}}',
    );
    const next = await cluster.expect(
      'every',
      'has the next revision',
      ({ status }) => status?.phase === 'Ready' && status.revisions?.[0]?.manifest !== first,
    );
    assert.equal(next.status?.bytesReady, 6 * mib);
    const { pins } = await cluster.pins();
    await until('only the new one is pinned', async () => {
      const manifests = new Set((await cluster.pins()).pins.map(({ manifest }) => manifest));
      return manifests.size === 1 && !manifests.has(first);
    });
    assert.ok(pins.length >= 2);
    await cluster.remove('every');
    await cluster.removeDataset('every');
  });

  it('choose another node when one dies while it is warmed, and others go on', async () => {
    const size = await cluster.dataset('dies', { 'a.bin': 24 * mib, 'b.bin': 24 * mib });
    cluster.origin.sentBytes = 0;
    await cluster.preload('dies', { placement: { replicas: 2 }, rateLimit: { origin: '3Mi' } });
    const chosen = await cluster.expect('dies', 'is on its way', ({ status }) => (status?.bytesReady ?? 0) > 8 * mib);
    // The one that reports to the operator goes on.
    const victim = chosen.status?.nodes?.map(({ name }) => name).find((name) => name !== 'n1') ?? '';
    const survivor = chosen.status?.nodes?.map(({ name }) => name).find((name) => name !== victim) ?? '';
    await cluster.hearth.agent(victim).kill();
    const replaced = await cluster.expect('dies', 'has another node', ({ status }) => {
      const names = status?.nodes?.map(({ name }) => name) ?? [];
      return names.length === 2 && !names.includes(victim) && names.includes(survivor);
    });
    assert.ok(replaced.status?.nodes?.some(({ name, bytesReady }) => name === survivor && bytesReady > 0));
    const { status } = await cluster.ready('dies');
    assert.deepEqual([status?.bytesReady, status?.nodesReady], [2 * size, 2]);
    await until('an event that says so', async () => {
      const events = await cluster.kubernetes.eventsOf('CachePreload', 'dies');
      return events.some((event) => event.startsWith(`Warning NodeReplaced: ${victim} `));
    });
    // The origin sends once more the bytes that only the dead agent had, and no others.
    assert.ok(cluster.origin.sentBytes < 2 * size, `${cluster.origin.sentBytes} of ${size}`);
    await cluster.hearth.agent(victim).start();
    await cluster.remove('dies');
    await cluster.removeDataset('dies');
  });

  it('wait for a node that they name, and end its pins when they are deleted meanwhile', async () => {
    const size = await cluster.dataset('named', { 'a.bin': 2 * mib });
    await cluster.preload('named', { placement: { nodeNames: ['n1', 'n2', 'absent'] } });
    const two = await cluster.expect('named', 'on two', ({ status }) => status?.nodesReady === 2);
    const absent = two.status?.nodes?.find(({ name }) => name === 'absent');
    assert.deepEqual([absent?.phase, absent?.message], ['Gone', 'there is no such node in the StorageCluster']);
    assert.equal(two.status?.bytesReady, 2 * size);
    assert.equal(conditionOf(two, 'Ready').reason, 'NodesGone');
    await cluster.hearth.agent('n2').kill();
    await until('n2 is away', async () =>
      (await cluster.hearth.json<{ nodes: { node: string }[] }>('n1', 'status')).nodes.every(
        ({ node }) => node !== 'n2',
      ),
    );
    await cluster.remove('named');
    assert.deepEqual((await cluster.pins()).pins, []);
    await cluster.hearth.agent('n2').start();
    await until('n2 has no pin', async () => {
      const dataset = (await cluster.status()).datasets.find(({ name }) => name === 'default.named');
      const n2 = dataset?.residency.find(({ node }) => node === 'n2');
      return n2 !== undefined && !n2.pinned;
    });
    await cluster.removeDataset('named');
  });

  it('are not in the way of their Dataset when that is deleted', async () => {
    await cluster.dataset('leaves', { 'a.bin': 32 * mib });
    await cluster.preload('leaves', { placement: { nodeNames: ['n1'] }, rateLimit: { origin: '1Mi' } });
    await cluster.expect('leaves', 'is on its way', ({ status }) => (status?.bytesReady ?? 0) > 0);
    await cluster.removeDataset('leaves');
    await cluster.expect('leaves', 'waits', ({ status }) => /does not exist yet/.test(status?.waitingFor ?? ''));
    await cluster.dataset('leaves', { 'a.bin': mib });
    const { status } = await cluster.ready('leaves');
    assert.equal(status?.bytesTotal, mib);
    await cluster.remove('leaves');
    await cluster.removeDataset('leaves');
  });

  it('are counted', async () => {
    // It hears of what has gone on a watch.
    const text = await until('none is counted as Ready', async () => {
      const metrics = await cluster.executor?.registry.metrics();
      return metrics?.includes('hearth_preload_objects{phase="Ready"} 0') && metrics;
    });
    assert.match(text, /hearth_preload_bytes_total\{from="origin"\} [1-9]\d+/);
    assert.match(text, /hearth_preload_ready_seconds_count [1-9]/);
  });

  it('leave nothing behind when they go while no operator is there', async () => {
    // More than comes while the operator stops, so that its job is still there.
    await cluster.dataset('orphan', { 'a.bin': 128 * mib });
    await cluster.preload('orphan', { placement: { nodeNames: ['n1'] }, rateLimit: { origin: '1Mi' } });
    await cluster.expect('orphan', 'is on its way', ({ status }) => (status?.bytesReady ?? 0) > 0);
    await cluster.executor?.stop();
    await cluster.kubernetes.kubectl(
      'patch',
      'cachepreload',
      'orphan',
      '--type=merge',
      '-p',
      '{"metadata":{"finalizers":[]}}',
    );
    await cluster.remove('orphan');
    assert.equal((await running()).length, 1);
    assert.ok((await cluster.pins()).pins.length > 0);
    await cluster.startExecutor({ sweepMs: 500 });
    await until('its job has ended', async () => (await running()).length === 0);
    await until('its pins are gone', async () => (await cluster.pins()).pins.length === 0);
    await cluster.removeDataset('orphan');
  });
});
