import assert from 'node:assert/strict';
import type { PublishedRecord } from './published_record.ts';
import { lostVolumes, volumesCapability } from './rebound_users.ts';

describe('volumesCapability', () => {
  const time = (minute: number) => new Date(Date.UTC(2026, 0, 1, 0, minute)).toISOString();
  const record = (name: string, minute?: number, before: number[] = []): PublishedRecord => ({
    dataset: 'team.model',
    manifest: 'a'.repeat(64),
    pod: { namespace: 'team', name, uid: `uid of ${name}` },
    ...(minute === undefined ? {} : { reboundAt: time(minute) }),
    ...(before.length === 0 ? {} : { reboundBefore: before.map(time) }),
  });
  const named = (records: PublishedRecord[]) =>
    volumesCapability(records).pods?.map(({ name, reboundAt }) => `${name} ${new Date(reboundAt).getUTCMinutes()}`);

  it('is ready while no mount has died', () => {
    assert.deepEqual(volumesCapability([record('a'), record('b')]), { name: 'volumes', ready: true, reason: '' });
  });

  it('names a pod once for each rebinding, newest first, merging several volumes', () => {
    const records = [record('a', 5, [1, 3]), record('b', 4), record('a', 5), record('c')];
    assert.deepEqual(named(records), ['a 5', 'b 4', 'a 3', 'a 1']);
    assert.deepEqual(named(records.toReversed()), named(records));
    assert.match(volumesCapability(records).reason, /^pod team\/a, pod team\/b had mounts/);
  });

  it('omits and counts the oldest, whatever the order of the records', () => {
    const records = Array.from({ length: 300 }, (_, index) => record(`p${index}`, index));
    const shuffled = records
      .filter((_, index) => index % 2 === 0)
      .concat(records.filter((_, index) => index % 2 === 1));
    for (const order of [records, shuffled]) {
      const { pods, podsLeftOut } = volumesCapability(order);
      assert.deepEqual([pods?.length, podsLeftOut], [256, 44]);
      assert.deepEqual([pods?.[0]?.name, pods?.at(-1)?.name], ['p299', 'p44']);
    }
  });
});

describe('lostVolumes', () => {
  const record = (name: string, more: Partial<PublishedRecord> = {}): PublishedRecord => ({
    dataset: 'team.model',
    manifest: 'a'.repeat(64),
    dataPath: 'fuse',
    pod: { namespace: 'team', name, uid: name },
    ...more,
  });
  const served = () => true;

  it('names no pod while all mounts are served; views need no server', () => {
    assert.deepEqual(lostVolumes([record('a'), record('b', { reboundAt: '2026-01-01T00:00:00Z' })], served), []);
    const views = [record('v', { dataPath: 'view' }), record('w', { dataPath: undefined })];
    assert.deepEqual(
      lostVolumes(views, () => false),
      [],
    );
  });

  it('names pods whose mounts are dead or not made again yet', () => {
    const [found] = lostVolumes([record('b', { lostAt: '2026-01-01T00:00:00Z' }), record('a')], served);
    assert.deepEqual([found?.name, found?.ready], ['lost-volumes', false]);
    assert.match(found?.reason ?? '', /^pod team\/b cannot read and start no container/);
    const many = ['d', 'a', 'c', 'b', 'a'].map((name) => record(name));
    const [all] = lostVolumes(many, ({ pod }) => pod?.name === 'c');
    assert.match(all?.reason ?? '', /^pod team\/a, pod team\/b, pod team\/d cannot/);
  });
});
