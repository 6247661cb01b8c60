import assert from 'node:assert/strict';
import { TestCluster } from '../testing/cluster.ts';
import { directorySource, fileRow } from '../testing/fake_origin.ts';
import { until } from '../testing/until.ts';

const soon = () => AbortSignal.timeout(3_000);

describe('mounts', () => {
  let cluster: TestCluster;
  beforeEach(async () => {
    cluster = await TestCluster.start(['a', 'b'], [fileRow('x', 5n)]);
    await add();
  });
  afterEach(async () => cluster.close());
  const add = () =>
    cluster.agent('a').resolution.add('d', { source: directorySource, include: [], exclude: [] }, () => {}, soon());

  it('are taken over after a restart, with the revision that they had', async () => {
    const mounted = await cluster.agent('a').mounts.mount('d', '/mnt/d', 'auto', soon());
    assert.equal(mounted.source, 'hearth:d');
    cluster.origin.rows = [fileRow('y', 6n)];
    const { dataset } = await add();
    assert.notEqual(dataset.manifest, mounted.manifest);
    await cluster.remove('a', 'crash');
    await cluster.add('a');
    const [mount] = await cluster.agent('a').mounts.list();
    assert.deepEqual([mount?.target, mount?.dataset, mount?.manifest], ['/mnt/d', 'd', mounted.manifest]);
  });

  it('are refused for datasets that are not there, and on targets in use', async () => {
    await assert.rejects(cluster.agent('a').mounts.mount('none', '/mnt/d', 'auto', soon()), { code: 'NotFound' });
    await cluster.agent('a').mounts.mount('d', '/mnt/d', 'auto', soon());
    await assert.rejects(cluster.agent('a').mounts.mount('d', '/mnt/d', 'auto', soon()), { code: 'InUse' });
  });

  it('keep a dataset from being removed until they end, also by others than us', async () => {
    await cluster.agent('b').mounts.mount('d', '/mnt/d', 'auto', soon());
    await assert.rejects(cluster.agent('a').removal.remove('d', false, soon()), {
      code: 'InUse',
      message: /mounted on b/,
    });
    cluster.engine('b').disk.mounts.delete('/mnt/d');
    cluster.agent('b').answer({ kind: 'mountEnded', target: '/mnt/d', message: 'unmounted by hand' });
    await until(async () => (await cluster.agent('a').mounts.of('d')).length === 0);
    await cluster.agent('a').removal.remove('d', false, soon());
  });

  it('whose mount is gone at the start are forgotten', async () => {
    await cluster.agent('a').mounts.mount('d', '/mnt/d', 'auto', soon());
    await cluster.remove('a', 'crash');
    cluster.disks.get('a')?.mounts.clear();
    await cluster.add('a');
    assert.deepEqual(await cluster.agent('b').mounts.of('d'), []);
  });
});
