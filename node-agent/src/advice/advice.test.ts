import assert from 'node:assert/strict';
import { HearthError } from '@hearth/common';
import { until } from '@hearth/common/testing';
import { TestCluster } from '../testing/cluster.ts';
import { directorySource, fileRow } from '../testing/fake_origin.ts';
import type { AdviceRequest } from './advice.ts';

const soon = () => AbortSignal.timeout(300_000);
const rows = Array.from({ length: 6 }, (_, index) => fileRow(`part-${index}.bin`, 100_000n));
const total = 600_000n;

describe('advice', () => {
  let cluster: TestCluster;
  let manifest: string;
  beforeEach(async () => {
    cluster = await TestCluster.start(['a', 'b', 'c'], rows);
    const request = { source: directorySource, include: [], exclude: [] };
    ({ manifest } = (await cluster.agent('a').resolution.add('d', request, () => {}, soon())).dataset);
  });
  afterEach(async () => cluster.close());

  const files = (changes: Partial<AdviceRequest> = {}): AdviceRequest => {
    return { dataset: 'd', manifest: '', paths: [], scope: 'node', nodes: [], ...changes };
  };
  async function brought(changes: Partial<AdviceRequest> = {}): Promise<string> {
    const { job } = await cluster.agent('a').advice.willNeed(files(changes), soon());
    for await (const { view } of cluster.agent('a').warmJobs.watch(job.name, soon())) {
      if (view.state === 'Succeeded') return job.name;
      assert.ok(['Pending', 'Running'].includes(view.state), view.message);
    }
    throw new Error('the job did not end');
  }
  const dontNeed = (changes: Partial<AdviceRequest> & { memoryOnly?: boolean; force?: boolean } = {}) => {
    const { memoryOnly = false, force = false, ...rest } = changes;
    return cluster.agent('a').advice.dontNeed({ ...files(rest), memoryOnly, force }, soon());
  };
  const resident = (node: string) => {
    return rows.reduce((sum, { contentKey = '' }) => sum + cluster.engine(node).residentOf(contentKey), 0n);
  };

  it('WILLNEED fetches files to this node, or to the given nodes', async () => {
    await brought({ paths: ['part-0.bin'] });
    assert.deepEqual(['a', 'b', 'c'].map(resident), [100_000n, 0n, 0n]);
    await brought({ nodes: ['b', 'c'] });
    assert.deepEqual(['a', 'b', 'c'].map(resident), [100_000n, total, total]);
  });

  it('WILLNEED for the cluster fetches once what no node holds', async () => {
    await brought({ nodes: ['b'], paths: ['part-0.bin', 'part-1.bin'] });
    await brought({ scope: 'cluster' });
    assert.equal(resident('a') + resident('b') + resident('c'), total);
    assert.equal(cluster.fabric.totalOriginBytes, total);
  });

  it('WILLNEED returns the running job for equal advice, and a new job later', async () => {
    cluster.fabric.bytesPerSecond = 1;
    const first = await cluster.agent('a').advice.willNeed(files(), soon());
    const again = await cluster.agent('a').advice.willNeed(files(), soon());
    assert.deepEqual([again.job.name, again.job.createdAt], [first.job.name, first.job.createdAt]);
    const { cancelledJobs } = await dontNeed();
    assert.deepEqual(cancelledJobs, [first.job.name]);
    cluster.fabric.bytesPerSecond = 1e9;
    assert.equal(await brought(), first.job.name);
  });

  it('WILLNEED starts another job after the dataset has changed', async () => {
    cluster.fabric.bytesPerSecond = 1;
    const before = await cluster.agent('a').advice.willNeed(files(), soon());
    cluster.origin.rows = [fileRow('part-0.bin', 100_000n, 'another'), ...rows.slice(1)];
    const request = { source: directorySource, include: [], exclude: [] };
    const { dataset } = await cluster.agent('a').resolution.add('d', request, () => {}, soon());
    assert.notEqual(dataset.manifest, manifest);
    const after = await cluster.agent('a').advice.willNeed(files(), soon());
    assert.deepEqual([before.job.manifest, after.job.manifest], [manifest, dataset.manifest]);
    const named = await cluster.agent('a').advice.willNeed(files({ manifest: dataset.manifest }), soon());
    assert.equal(named.job.name, after.job.name);
  });

  it('WILLNEED limits the number of running jobs, also for concurrent requests', async () => {
    cluster.fabric.bytesPerSecond = 1;
    const asked = await Promise.allSettled(
      Array.from({ length: 100 }, (_, index) =>
        cluster.agent('a').advice.willNeed(files({ paths: [`part-${index % 6}.bin`, `none-${index}`] }), soon()),
      ),
    );
    const refused = asked.filter(({ status }) => status === 'rejected');
    assert.equal(cluster.agent('a').warmJobs.list().length, 64);
    assert.equal(refused.length, 36);
    for (const one of refused)
      assert.equal(HearthError.from((one as PromiseRejectedResult).reason).code, 'Unavailable');
  });

  it('DONTNEED releases on this node, the given nodes or all nodes', async () => {
    await brought({ nodes: ['a', 'b', 'c'] });
    const here = await dontNeed({ paths: ['part-1.bin', 'part-2.bin'] });
    assert.deepEqual(
      here.answers.map(({ node, filesFreed, bytesFreed }) => [node, filesFreed, bytesFreed]),
      [['a', 2, 200_000n]],
    );
    assert.deepEqual(['a', 'b', 'c'].map(resident), [400_000n, total, total]);
    await dontNeed({ nodes: ['b'] });
    assert.deepEqual(['a', 'b', 'c'].map(resident), [400_000n, 0n, total]);
    assert.equal((await dontNeed({ scope: 'cluster' })).answers.length, 3);
    assert.deepEqual(['a', 'b', 'c'].map(resident), [0n, 0n, 0n]);
  });

  it('DONTNEED for memory leaves caches unchanged', async () => {
    await brought();
    const { answers } = await dontNeed({ memoryOnly: true });
    assert.equal(answers[0]?.memoryBytesFreed, 1n);
    assert.deepEqual(cluster.engine('a').advised, ['memory']);
    assert.equal(resident('a'), total);
    assert.equal(cluster.origin.listed, 1, 'nothing can be lost by that');
  });

  it('DONTNEED keeps and reports pinned files', async () => {
    await brought({ nodes: ['b', 'c'] });
    await cluster.agent('b').pins.pin({ dataset: 'd', manifest, paths: ['part-0.bin'], owner: 'p' }, soon());
    const { answers } = await dontNeed({ scope: 'cluster' });
    assert.deepEqual(
      answers.map(({ node, filesKept, filesPinned }) => [node, filesKept, filesPinned]),
      [
        ['a', 0, 0],
        ['b', 1, 1],
        ['c', 0, 0],
      ],
    );
    assert.equal(resident('b'), 100_000n);
  });

  it('DONTNEED keeps files that the origin no longer has, unless forced', async () => {
    await brought({ nodes: ['a', 'b'] });
    cluster.origin.rows = [fileRow('part-0.bin', 100_000n, 'another'), ...rows.slice(2)];
    const { notInOrigin } = await dontNeed({ scope: 'cluster' });
    assert.deepEqual(
      notInOrigin.map(({ path }) => path),
      ['part-0.bin', 'part-1.bin'],
    );
    assert.deepEqual(['a', 'b'].map(resident), [200_000n, 200_000n]);
    const forced = await dontNeed({ scope: 'cluster', force: true });
    assert.deepEqual(forced.notInOrigin, []);
    assert.deepEqual(['a', 'b'].map(resident), [0n, 0n]);
  });

  it('DONTNEED releases nothing while the origin does not answer', async () => {
    await brought();
    cluster.origin.rows = [];
    cluster.origin.listError = new HearthError('Unavailable', 'the origin is away');
    await assert.rejects(dontNeed(), { code: 'Unavailable', message: /nothing was released.*is away.*--force/ });
    assert.equal(resident('a'), total);
    await dontNeed({ force: true });
    assert.equal(resident('a'), 0n);
  });

  it('skips and names agents of earlier releases', async () => {
    await brought({ nodes: ['a', 'b'] });
    cluster.earlierReleases.add('b');
    const { answers } = await dontNeed({ scope: 'cluster' });
    assert.deepEqual(
      answers.map(({ node, errorCode }) => [node, errorCode]),
      [
        ['a', undefined],
        ['b', 'Unsupported'],
        ['c', undefined],
      ],
    );
    assert.equal(resident('b'), total);
    const { job } = await cluster.agent('a').advice.willNeed(files({ scope: 'cluster' }), soon());
    assert.deepEqual(job.nodes, ['a', 'c']);
    await until(async () => (await cluster.agent('a').warmJobs.get(job.name)).view.state === 'Succeeded');
  });

  it('names unknown datasets, nodes and files', async () => {
    await assert.rejects(dontNeed({ nodes: ['x'] }), { code: 'NotFound', message: /no agent x/ });
    await assert.rejects(dontNeed({ dataset: 'no' }), { code: 'NotFound', message: /no dataset no/ });
    await assert.rejects(dontNeed({ manifest: 'ff' }), { code: 'NotFound', message: /no revision ff/ });
    const { answers } = await dontNeed({ paths: ['none'] });
    assert.match(answers[0]?.message ?? '', /no file of dataset d matches/);
  });
});
