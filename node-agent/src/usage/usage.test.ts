import assert from 'node:assert/strict';
import { until } from '@hearth/common/testing';
import { TestCluster } from '../testing/cluster.ts';
import { directorySource, fileRow } from '../testing/fake_origin.ts';
import { evictionTime, usesAt, withUses } from './record.ts';

const day = 24 * 3_600_000;

/**
 * Adds the dataset d and returns its manifest once agent a knows it, because agents publish no use of unknown datasets.
 */
async function addTo(cluster: TestCluster): Promise<string> {
  const { resolution, datasets } = cluster.agent('a');
  const request = { source: directorySource, include: [], exclude: [] };
  const { dataset } = await resolution.add('d', request, () => {}, AbortSignal.timeout(300_000));
  await until(() => datasets.mirror.get('d') !== undefined);
  return dataset.manifest;
}

describe('usage of a dataset', () => {
  it('decays by half each day, and grows with further uses', () => {
    const first = withUses(undefined, { dataset: 'd', at: 0, count: 4 });
    assert.equal(usesAt(first, day), 2);
    assert.equal(usesAt(first, 2 * day), 1);
    assert.deepEqual(withUses(first, { dataset: 'd', at: day, count: 1 }), { dataset: 'd', usedAt: day, uses: 3 });
  });

  it('ignores an agent whose clock is behind', () => {
    const known = { dataset: 'd', usedAt: day, uses: 5 };
    assert.deepEqual(withUses(known, { dataset: 'd', at: 0, count: 1 }), { dataset: 'd', usedAt: day, uses: 6 });
  });

  it('orders eviction at any time by the decayed uses', () => {
    const often = { dataset: 'often', usedAt: 0, uses: 4 };
    const lately = { dataset: 'lately', usedAt: day, uses: 1 };
    const once = { dataset: 'once', usedAt: 0, uses: 1 };
    const order = (now: number) =>
      [often, lately, once].sort((a, b) => usesAt(a, now) - usesAt(b, now)).map(({ dataset }) => dataset);
    assert.deepEqual(order(day), order(5 * day));
    const byTime = [often, lately, once].sort((a, b) => evictionTime(a) - evictionTime(b));
    assert.deepEqual(
      byTime.map(({ dataset }) => dataset),
      order(day),
    );
    assert.ok(
      evictionTime({ dataset: 'd', usedAt: 0, uses: 1e9 }) <= 3 * day,
      'a dataset that is not wanted goes at last',
    );
  });

  it('on one agent is reported to all engines', async () => {
    const cluster = await TestCluster.start(['a', 'b'], [fileRow('x', 5n)]);
    try {
      const manifest = await addTo(cluster);
      const began = Date.now();
      cluster.agent('a').usage.began('d');
      cluster.agent('a').usage.began('d');
      await until(() => (cluster.engine('b').lastUse.get(manifest) ?? 0) >= began + day);
      const first = cluster.agent('b').usage.of('d');
      assert.equal(Math.round(first?.uses ?? 0), 2);
      // A mount is in use for as long as it lasts.
      await cluster.agent('b').mounts.mount('d', '/mnt/d', 'auto', AbortSignal.timeout(300_000));
      await until(() => (cluster.agent('a').usage.of('d')?.uses ?? 0) > 3.5);
    } finally {
      await cluster.close();
    }
  });

  it('is reported to a restarted engine when its manifests are open', async () => {
    const cluster = await TestCluster.start(['a', 'b'], [fileRow('x', 5n)]);
    try {
      const manifest = await addTo(cluster);
      cluster.agent('a').usage.began('d');
      await until(() => cluster.engine('b').lastUse.has(manifest));
      await cluster.remove('b');
      const disk = cluster.disks.get('b');
      assert.ok(disk);
      disk.openManifestMs = 500; // what is in the store is read sooner
      await cluster.add('b');
      await until(() => cluster.engine('b').lastUse.has(manifest));
    } finally {
      await cluster.close();
    }
  });

  it('by a warm job marks the dataset as wanted, without counting as a use', async () => {
    const cluster = await TestCluster.start(['a'], [fileRow('x', 5n)]);
    try {
      await addTo(cluster);
      cluster.agent('a').usage.touched('d');
      await until(() => cluster.agent('a').usage.of('d') !== undefined);
      assert.equal(cluster.agent('a').usage.of('d')?.uses, 0);
    } finally {
      await cluster.close();
    }
  });
});
