import assert from 'node:assert/strict';
import { until } from '@hearth/common/testing';
import { TestCluster } from '../testing/cluster.ts';
import { elect } from './election.ts';
import { chooseFollowers } from './followers.ts';
import type { WritableVolumeRecord } from './record.ts';
import { volumeStanding } from './standing.ts';

const id = '1'.repeat(32);
const record: WritableVolumeRecord = {
  ...{ name: 'kv', id, store: '2'.repeat(32), kind: 'scratch', maxBytes: 0n, maxFiles: 0n, deadlineMs: 10_000 },
  ...{ createdAt: 0, epoch: 3, logInstallation: 'disk of a', logNode: 'a', followers: ['b', 'c'] },
};
const own = (node: string) => ({ node, installation: `disk of ${node}` });
const at = (node: string, epoch: bigint, position: bigint) => ({ node, epoch, record: position });

describe('the election of a volume leader', () => {
  it('gives the volume to the longest log, of the latest epoch first', () => {
    const positions = [at('a', 2n, 90n), at('b', 3n, 7n), at('c', 3n, 8n)];
    assert.deepEqual(elect(record, own('c'), positions), { followers: ['b'], reason: '' });
    assert.match(elect(record, own('a'), positions).reason, /agent on c has the longest log/);
    assert.match(elect(record, own('b'), positions).reason, /agent on c has the longest log/);
  });

  it('prefers the agent that led among equal logs, and then the first by name', () => {
    const positions = [at('c', 3n, 8n), at('b', 3n, 8n), at('a', 3n, 8n)];
    assert.deepEqual(elect(record, own('a'), positions).followers, ['b', 'c']);
    assert.equal(elect(record, own('b'), positions).followers, undefined);
    assert.deepEqual(elect(record, own('b'), positions.slice(0, 2)).followers, ['c']);
  });

  it('takes followers off the list that did not answer, and never lets an empty or unreadable log lead', () => {
    assert.deepEqual(elect(record, own('b'), [at('b', 3n, 1n)]).followers, []);
    assert.match(elect(record, own('b'), [at('b', 0n, 0n)]).reason, /no log/);
    assert.match(elect(record, own('b'), [at('c', 3n, 1n)]).reason, /cannot be read/);
  });

  it('keeps followers that are there, and chooses others the same way everywhere', () => {
    const nodes = new Set(['a', 'b', 'c', 'd', 'e']);
    const chosen = chooseFollowers(id, 'a', [], nodes);
    assert.equal(chosen.length, 2);
    assert.ok(!chosen.includes('a'));
    assert.deepEqual(chooseFollowers(id, 'a', [], new Set([...nodes].reverse())), chosen);
    assert.deepEqual(chooseFollowers(id, 'a', ['d', 'gone'], nodes)[0], 'd');
    assert.deepEqual(chooseFollowers(id, 'a', [], new Set(['a'])), []);
  });
});

describe('followers of a volume leader', () => {
  let cluster: TestCluster;
  beforeEach(async () => {
    cluster = await TestCluster.start(['a', 'b', 'c'], []);
  });
  afterEach(() => cluster.close());

  const create = async () => {
    const { writableVolumes, context } = cluster.agent('a');
    const limits = { kind: 'scratch', maxBytes: 0n, maxFiles: 0n };
    return await writableVolumes.create({ ...limits, name: 'kv' }, context);
  };
  const seenBy = (agent: string) => cluster.agent(agent).writableVolumeTables.volumesMirror.get('kv');
  const recordAt = (agent: string) => {
    const found = seenBy(agent);
    assert.ok(found);
    return found;
  };
  const listed = (agent: string, ...nodes: string[]) =>
    until(() => seenBy(agent)?.followers.join(' ') === nodes.join(' '));
  const ledBy = (node: string, epoch: bigint) =>
    until(() =>
      [...cluster.agents.keys()].every((agent) => {
        const leader = cluster.engine(agent).volumeLeaders.get(seenBy(agent)?.id ?? '');
        return leader?.node === node && leader.epoch === epoch;
      }),
    );

  it('are on the list when they have the log, and one leads when the leader is lost', async () => {
    await create();
    await ledBy('a', 1n);
    await listed('b', 'b', 'c');
    await cluster.remove('a', 'crash');
    assert.equal(cluster.engine('b').led.length, 0);
    await cluster.endLease('a');
    await ledBy('b', 2n);
    assert.deepEqual([recordAt('c').logNode, recordAt('c').logInstallation], ['b', 'disk of b']);
    await listed('c', 'c');
    await cluster.add('a');
    await listed('c', 'a', 'c');
    assert.equal(cluster.agent('a').volumeReconciler.reasonOf(recordAt('a').id), '');
  });

  it('leave the list when they are late, and do not lead then', async () => {
    const { id: volume } = await create();
    await listed('b', 'b', 'c');
    cluster.disks.get('a')?.lateFollowers.add('b');
    cluster.engine('a').followersChanged();
    await listed('b', 'c');
    await cluster.remove('c');
    await listed('b');
    await cluster.remove('a', 'crash');
    await cluster.endLease('a');
    await until(() => cluster.engine('b').volumeLeaders.get(volume) === undefined);
    const { context, writableVolumeTables: tables } = cluster.agent('b');
    const { state, message } = volumeStanding(recordAt('b'), tables.leaderOf(volume), context.members);
    assert.deepEqual([state, cluster.engine('b').led], ['Waiting', []]);
    assert.match(message, /the agent on a is away, .* only log of the volume/);
    await cluster.add('a');
    await ledBy('a', 2n);
  });

  it('wait for the agent that led, and for a log that is longer than theirs', async () => {
    const { id: volume } = await create();
    await listed('b', 'b', 'c');
    await cluster.remove('a', 'crash');
    cluster.disks.get('c')?.volumeLogs.set(volume, 7n);
    await cluster.endLease('a');
    await until(() => cluster.engine('c').volumeLeaders.get(volume)?.node === 'c');
    assert.deepEqual(cluster.engine('b').led, []);
    await until(() => (seenBy('b')?.epoch ?? 0) > 7);
  });
});
