import assert from 'node:assert/strict';
import { until } from '@hearth/common/testing';
import { TestCluster } from '../testing/cluster.ts';

const signal = new AbortController().signal;

describe('statistics of the cluster', () => {
  let cluster: TestCluster;
  beforeEach(async () => {
    cluster = await TestCluster.start(['a', 'b', 'c'], []);
  });
  afterEach(() => cluster.close());

  const stored = async () => {
    const { entries } = await cluster.agent('a').context.store.range('stats/');
    return entries.map(({ key }) => key.slice('stats/'.length));
  };

  it('are asked of the agents, and are not in the store', async () => {
    const { statistics, missing } = await cluster.agent('a').clusterStatistics.gather({}, signal);
    assert.deepEqual([[...statistics.keys()].sort(), missing.size], [['a', 'b', 'c'], 0]);
    const some = await cluster.agent('a').clusterStatistics.gather({ nodes: ['b'] }, signal);
    assert.deepEqual([...some.statistics.keys()], ['b']);
    assert.deepEqual(await stored(), []);
  });

  it('say why those of an agent are missing', async () => {
    cluster.unreachable.add('b');
    cluster.withoutCache.add('c');
    const { statistics, missing } = await cluster.agent('a').clusterStatistics.gather({}, signal);
    assert.deepEqual([...statistics.keys()], ['a']);
    assert.deepEqual([...missing], [['b', 'agent b is cut off']]);
  });

  it('are in the store for agents of an earlier release, as long as one is a member', async () => {
    cluster.earlierReleases.add('c');
    await until('all agents write', async () => (await stored()).length === 3);
    const known = cluster.agent('a').clusterStatistics;
    await until('the mirror has them', () => known.stored().statistics.has('c'));
    assert.deepEqual([...known.stored().statistics.keys()], ['c'], 'others can be asked');
    cluster.unreachable.add('c');
    const { statistics } = await known.gather({}, signal);
    assert.ok(statistics.has('c'), 'it is not asked');
    cluster.earlierReleases.delete('c');
    await until('nobody writes', async () => (await stored()).length === 0);
  });
});
