import assert from 'node:assert/strict';
import { until } from '@hearth/common/testing';
import { TestCluster } from '../testing/cluster.ts';

describe('mount holder', () => {
  let cluster: TestCluster;
  beforeEach(async () => {
    cluster = await TestCluster.start(['a', 'b'], []);
  });
  afterEach(async () => cluster.close());

  const told = () => cluster.agent('a').statistics.current?.capabilities.find((one) => one.name === 'holder');

  it('is reported with its release, and as outdated', async () => {
    assert.equal(told(), undefined, 'no holder answers');
    cluster.engine('a').holderSight = { release: '0.1.0+1', expected: '0.1.0+1', missing: '' };
    await until(() => told()?.ready === true);
    assert.equal(told()?.reason, 'release 0.1.0+1');
    // Same version, built from other sources.
    cluster.engine('a').holderSight = { release: '0.1.0+0', expected: '0.1.0+1', missing: 'memory' };
    await until(() => told()?.ready === false);
    const said = /^the mount holder is of release 0\.1\.0\+0 and lacks memory, its agent comes with 0\.1\.0\+1\. /;
    assert.match(told()?.reason ?? '', said);
    cluster.engine('a').holderSight = undefined;
    await until(() => told() === undefined);
  });
});
