import assert from 'node:assert/strict';
import { HearthError } from '@hearth/common';
import { until } from '@hearth/common/testing';
import { TestCluster } from '../testing/cluster.ts';
import { volumeStanding } from './standing.ts';

const limits = { kind: 'scratch', maxBytes: 10n << 30n, maxFiles: 0n };

describe('writable volumes', () => {
  let cluster: TestCluster;
  beforeEach(async () => {
    cluster = await TestCluster.start(['a', 'b'], []);
  });
  afterEach(() => cluster.close());

  const create = (agent = 'a', name = 'kv', more = {}) => {
    const { writableVolumes, context } = cluster.agent(agent);
    return writableVolumes.create({ ...limits, name, ...more }, context);
  };
  const leaderSeenBy = (agent: string, id: string) => cluster.engine(agent).volumeLeaders.get(id);
  const ledBy = (node: string, id: string, epoch: bigint) =>
    until(() => [...cluster.agents.keys()].every((agent) => sameLeader(leaderSeenBy(agent, id), { node, epoch })));
  const standing = (agent: string, name: string) => {
    const { writableVolumeTables: tables, context } = cluster.agent(agent);
    const record = tables.volumesMirror.get(name);
    assert.ok(record);
    return volumeStanding(record, tables.leaderOf(record.id), context.members);
  };

  it('are led by the agent that has the log, as every engine learns', async () => {
    const { id, store } = await create();
    await ledBy('a', id, 1n);
    assert.deepEqual(cluster.engine('b').volumes.get(id), {
      ...{ id, store, name: 'kv', deadlineMs: 10_000, maxBytes: 10n << 30n, maxInodes: 0n },
    });
    assert.deepEqual(cluster.engine('b').led, []);
    assert.equal((await create('b', 'other')).store, store);
    assert.deepEqual(standing('b', 'kv'), { state: 'Ready', message: '' });
  });

  it('are created once, and refused under bad names, for other limits and of unknown kinds', async () => {
    const first = await create();
    assert.equal((await create('b')).id, first.id);
    await assert.rejects(create('b', 'kv', { maxBytes: 1n }), { code: 'AlreadyExists', message: /10737418240 bytes/ });
    await assert.rejects(create('a', 'x', { kind: 'durable' }), { code: 'InvalidArgument', message: /scratch/ });
    for (const name of ['', '../x', 'a:b', 'a/b', 'x'.repeat(129)]) {
      await assert.rejects(create('a', name), { code: 'InvalidArgument', message: /name of a volume/ });
    }
  });

  it('grow under their leader without another term, on every agent, and do not shrink', async () => {
    const { id } = await create();
    await ledBy('a', id, 1n);
    const { writableVolumes } = cluster.agent('b');
    const larger = 20n << 30n;
    for (let round = 0; round < 2; round++) assert.equal((await writableVolumes.resize('kv', larger)).maxBytes, larger);
    await until(() => ['a', 'b'].every((agent) => cluster.engine(agent).volumes.get(id)?.maxBytes === larger));
    assert.deepEqual(leaderSeenBy('b', id)?.epoch, 1n);
    await assert.rejects(writableVolumes.resize('kv', 10n << 30n), {
      code: 'InvalidArgument',
      message: /cannot shrink/,
    });
    await assert.rejects(writableVolumes.resize('none', larger), { code: 'NotFound', message: /no volume none/ });
    assert.equal((await writableVolumes.resize('kv', 0n)).maxBytes, 0n);
    await assert.rejects(writableVolumes.resize('kv', larger), { code: 'InvalidArgument', message: /has no limit/ });
  });

  it('have a higher epoch in every term: after a crash at once, without waiting for the lease', async () => {
    cluster.disks.get('a')?.lateFollowers.add('b');
    const { id } = await create();
    await ledBy('a', id, 1n);
    await cluster.remove('a', 'crash');
    await cluster.add('a');
    await ledBy('a', id, 2n);
    await cluster.remove('a');
    await until(() => leaderSeenBy('b', id) === undefined);
    assert.equal(standing('b', 'kv').state, 'Waiting');
    assert.match(standing('b', 'kv').message, /the agent on a is away, .* only log of the volume/);
    await cluster.add('a');
    await ledBy('a', id, 3n);
    assert.deepEqual(cluster.engine('b').led, []);
  });

  it('are led anew when the lease of their leader is lost', async () => {
    const { id } = await create();
    await ledBy('a', id, 1n);
    const { store, session } = { store: cluster.store('a'), session: cluster.agent('a').context.session };
    await store.revokeLease(await session.lease());
    await cluster.clock.advance(10_000);
    await ledBy('a', id, 2n);
    assert.deepEqual(
      cluster.engine('a').led.map(({ epoch }) => epoch),
      [1n, 2n],
    );
  });

  it('are led for as long as renewals are answered', async () => {
    const { id } = await create();
    await until(() => cluster.engine('a').leases.has(id));
    const before = cluster.engine('a').leases.get(id)?.until ?? 0;
    await cluster.clock.advance(4_000);
    await until(() => (cluster.engine('a').leases.get(id)?.until ?? 0) > before);
    cluster.store('a').cut();
    const last = cluster.engine('a').leases.get(id)?.until;
    await cluster.clock.advance(60_000);
    assert.equal(cluster.engine('a').leases.get(id)?.until, last);
  });

  it('are led in a later epoch than their log has, as when the store is an older copy', async () => {
    cluster.engine('a').leadFailure = new HearthError('Corrupt', 'the log is damaged');
    const { id } = await create();
    const { volumeReconciler, statistics } = cluster.agent('a');
    await until(() => volumeReconciler.reasonOf(id) === 'the log is damaged');
    await until(() => statistics.current?.volumes[0]?.error === 'the log is damaged');
    cluster.engine('a').disk.volumeLogs.set(id, 20n);
    cluster.engine('a').leadFailure = undefined;
    await until(() => (cluster.engine('a').led[0]?.epoch ?? 0n) > 20n);
    assert.equal(volumeReconciler.reasonOf(id), '');
  });

  it('are closed on all agents and their files removed when they are deleted, also where the agent was away', async () => {
    const { id } = await create();
    await ledBy('a', id, 1n);
    cluster.engine('b').disk.volumeLogs.set(id, 1n);
    await cluster.remove('b');
    await cluster.agent('a').writableVolumes.delete('kv');
    await until(() => !cluster.engine('a').volumes.has(id) && !cluster.engine('a').disk.volumeLogs.has(id));
    await cluster.add('b');
    assert.equal(cluster.engine('b').disk.volumeLogs.has(id), false);
    const next = await create('b');
    assert.notEqual(next.id, id);
    await ledBy('b', next.id, 1n);
    await cluster.agent('a').writableVolumes.delete('kv');
    await assert.rejects(cluster.agent('a').writableVolumes.delete('kv'), {
      code: 'NotFound',
      message: /no volume kv/,
    });
  });

  it('stay open when the store loses them, and their records are written again', async () => {
    const { id } = await create();
    await ledBy('a', id, 1n);
    const store = cluster.store('b');
    await store.transact({ compare: [], success: [{ kind: 'deletePrefix', prefix: 'writable/' }] });
    await until(() => cluster.agent('b').writableVolumeTables.volumesMirror.get('kv')?.id === id);
    await until(() => cluster.engine('a').led.length > 1);
    const [, epoch] = cluster.engine('a').led;
    assert.ok((epoch?.epoch ?? 0n) > 1n);
    assert.ok(cluster.engine('b').volumes.has(id));
  });
});

function sameLeader(one: { node: string; epoch: bigint } | undefined, other: { node: string; epoch: bigint }): boolean {
  return one?.node === other.node && one.epoch === other.epoch;
}
