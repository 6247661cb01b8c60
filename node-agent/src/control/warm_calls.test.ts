import assert from 'node:assert/strict';
import { CreateWarmJobRequest, type WarmJob } from '@hearth/common/generated/hearth/v1/control.ts';
import { until } from '@hearth/common/testing';
import { TestCluster } from '../testing/cluster.ts';
import { directorySource, fileRow } from '../testing/fake_origin.ts';
import { WarmCalls } from './warm_calls.ts';

const soon = () => AbortSignal.timeout(300_000);

describe('messages about warm jobs', () => {
  let cluster: TestCluster;
  let calls: WarmCalls;
  beforeEach(async () => {
    cluster = await TestCluster.start(['a', 'b'], [fileRow('a.bin', 3_000_000n), fileRow('b.bin', 10n)]);
    const request = { source: directorySource, include: [], exclude: [] };
    await cluster.agent('a').resolution.add('d', request, () => {}, soon());
    calls = new WarmCalls(cluster.agent('a'));
  });
  afterEach(async () => cluster.close());

  const create = (changes: Partial<CreateWarmJobRequest>) =>
    calls.createWarmJob(CreateWarmJobRequest.fromPartial({ dataset: 'd', name: 'j', ...changes }), soon());
  async function last(): Promise<WarmJob | undefined> {
    let job: WarmJob | undefined;
    for await (const one of calls.watchWarmJob({ name: 'j' }, soon())) job = one;
    return job;
  }

  it('report bytes in memory before they are stored, with the times of both', async () => {
    cluster.engine('a').disk.stopped = true;
    const created = await create({ nodes: ['a'], readyWhen: 'memory' });
    assert.deepEqual([created.readyWhen, created.ready, created.inMemoryAt], ['memory', false, '']);
    await until(async () => (await calls.getWarmJob({ name: 'j' })).ready);
    const early = await calls.getWarmJob({ name: 'j' });
    assert.deepEqual([early.state, early.bytesReady, early.storedAt], ['Running', 0n, '']);
    assert.deepEqual([early.bytesInMemory, early.nodes[0]?.bytesInMemory], [early.bytesTotal, early.bytesTotal]);
    assert.ok(Date.parse(early.inMemoryAt) >= Date.parse(early.createdAt));
    cluster.engine('a').disk.stopped = false;
    const job = await last();
    assert.deepEqual([job?.state, job?.ready, job?.inMemoryAt], ['Succeeded', true, early.inMemoryAt]);
    const seconds = (time = '') => (Date.parse(time) - Date.parse(created.createdAt)) / 1000;
    for (const one of [job, job?.nodes[0]]) {
      assert.equal(one?.secondsToMemory, seconds(one?.inMemoryAt));
      assert.equal(one?.secondsToStored, seconds(one?.storedAt));
    }
    assert.ok((job?.secondsToStored ?? 0) >= (job?.secondsToMemory ?? 0));
  });

  it('default to "stored", and refuse other words', async () => {
    assert.equal((await create({})).readyWhen, 'stored');
    await assert.rejects(create({ name: 'k', readyWhen: 'soon' }), {
      code: 'InvalidArgument',
      message: /ready_when is "soon"; it must be stored, memory/,
    });
  });
});
