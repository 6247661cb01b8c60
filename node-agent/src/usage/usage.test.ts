import { TestCluster } from '../testing/cluster.ts';
import { directorySource, fileRow } from '../testing/fake_origin.ts';
import { until } from '../testing/until.ts';

describe('last use', () => {
  it('of a dataset on one agent is told to the engines of all', async () => {
    const cluster = await TestCluster.start(['a', 'b'], [fileRow('x', 5n)]);
    try {
      const request = { source: directorySource, include: [], exclude: [] };
      const { dataset } = await cluster.agent('a').resolution.add('d', request, () => {}, AbortSignal.timeout(3_000));
      const began = Date.now();
      cluster.agent('a').lastUse.note('d');
      await until(() => (cluster.engine('b').lastUse.get(dataset.manifest) ?? 0) >= began);
      const first = cluster.engine('b').lastUse.get(dataset.manifest) ?? 0;
      await cluster.agent('b').mounts.mount('d', '/mnt/d', 'auto', AbortSignal.timeout(3_000));
      await until(() => (cluster.engine('a').lastUse.get(dataset.manifest) ?? 0) > first);
    } finally {
      await cluster.close();
    }
  });
});
