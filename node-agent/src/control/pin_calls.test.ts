import assert from 'node:assert/strict';
import { until } from '@hearth/common/testing';
import type { TestCluster } from '../testing/cluster.ts';
import { collect, failsWith, TestControl, warmJob } from './testing/test_control.ts';

/** Default fields of a pin request. */
const plain = { manifest: '', tolerant: false, moreOwners: [] };

describe('pins, eviction and advice by the control API', () => {
  let control: TestControl;
  let cluster: TestCluster;
  let client: TestControl['client'];
  let call: TestControl['call'];
  let add: TestControl['add'];
  beforeEach(async () => {
    control = await TestControl.start();
    ({ cluster, client, call, add } = control);
  });
  afterEach(() => control.close());

  it('pins and evicts on the given agents through the store', async () => {
    const { manifest } = (await add()).at(-1)?.dataset ?? { manifest: '' };
    await call('createWarmJob', warmJob);
    await collect(client.watchWarmJob({ name: 'j' }));
    const pinned = await call('pin', { dataset: 'd', paths: ['a.bin'], nodes: ['b'], owner: '', ...plain });
    assert.deepEqual(pinned.nodes, ['b']);
    assert.ok(cluster.engine('b').pins.get(manifest)?.has('d/user'));
    const evicted = await call('evict', { dataset: 'd', paths: [], nodes: [] });
    assert.deepEqual(
      evicted.nodes.map((node) => [node.node, node.filesFreed, node.filesKept]),
      [
        ['a', 2n, 0n],
        ['b', 1n, 1n],
      ],
    );
    await call('pin', { dataset: 'd', paths: ['a.bin'], nodes: ['b'], owner: '', ...plain, moreOwners: ['x', 'y'] });
    assert.deepEqual([...(cluster.engine('b').pins.get(manifest)?.keys() ?? [])], ['d/user', 'd/x', 'd/y']);
    await call('unpin', { dataset: 'd', paths: [], nodes: ['b'], owner: '', ...plain, moreOwners: ['x', 'y'] });
    const again = await call('evict', { dataset: 'd', paths: [], nodes: ['b'] });
    assert.equal(again.nodes[0]?.bytesFreed, 3_000_000n);
    await assert.rejects(
      call('pin', { dataset: 'd', paths: [], nodes: ['x'], owner: '', ...plain }),
      failsWith('NotFound', /no agent x/),
    );
    await assert.rejects(
      call('pin', { dataset: 'd', paths: ['*.none'], nodes: [], owner: '', ...plain }),
      failsWith('NotFound', /0 of 2 agents did pin; a: no file/),
    );
    const { entries } = await cluster.store('a').range('requests/');
    assert.equal(entries.length, 0, 'requests are cleared away');
    const half = await call('pin', { ...plain, dataset: 'd', paths: [], nodes: ['a'], owner: 'p/1/x', tolerant: true });
    assert.deepEqual([half.nodes, half.failures], [['a'], []]);
    const { pins } = await call('listPins', { ownerPrefix: 'p/1/' });
    assert.deepEqual(pins, [{ node: 'a', dataset: 'd', manifest, paths: [], owner: 'p/1/x' }]);
    await assert.rejects(
      call('releasePins', { ownerPrefix: '', nodes: [], exceptOwners: [] }),
      failsWith('InvalidArgument', /prefix of the owner/),
    );
    assert.deepEqual(await call('releasePins', { ownerPrefix: 'p/1/', nodes: [], exceptOwners: [] }), { pins: 1 });
    await until(() => cluster.engine('a').pins.get(manifest)?.has('d/p/1/x') === false);
    assert.deepEqual(await call('measureFiles', { dataset: 'd', manifest, paths: ['b/*'] }), { files: 2n, bytes: 10n });
  });

  it('takes advice for nodes and for the cluster', async () => {
    await add();
    const advise = { dataset: 'd', paths: [], manifest: '', scope: '', nodes: [], memoryOnly: false, force: false };
    const { job: begun } = await call('advise', { ...advise, advice: 'willneed', nodes: ['a', 'b'] });
    assert.equal(begun?.advice, 'node');
    await collect(client.watchWarmJob({ name: begun?.name ?? '' }));
    await call('pin', { dataset: 'd', paths: ['a.bin'], nodes: ['b'], owner: '', ...plain });
    const { nodes } = await call('advise', { ...advise, advice: 'dontneed', scope: 'cluster' });
    assert.deepEqual(
      nodes.map(({ node, filesFreed, filesPinned, message }) => [node, filesFreed, filesPinned, message]),
      [
        ['a', 2n, 0n, ''],
        ['b', 1n, 1n, '1 pinned (hearth unpin)'],
      ],
    );
    const refused = [
      [{ advice: 'perhaps' }, /advice is "perhaps"/],
      [{ advice: 'dontneed', scope: 'rack' }, /scope is "rack"/],
      [{ advice: 'dontneed', scope: 'cluster', nodes: ['a'] }, /name none/],
      [{ advice: 'willneed', force: true }, /require dontneed/],
    ] as const;
    for (const [changes, message] of refused) {
      const request = { ...advise, ...changes, nodes: 'nodes' in changes ? [...changes.nodes] : [] };
      await assert.rejects(call('advise', request), failsWith('InvalidArgument', message));
    }
  });

  it('skips agents without a cache, and reports the ones that were named', async () => {
    await add();
    cluster.withoutCache.add('b');
    const { nodes } = await call('evict', { dataset: 'd', paths: [], nodes: [] });
    assert.deepEqual(
      nodes.map(({ node }) => node),
      ['a'],
    );
    const named = await call('evict', { dataset: 'd', paths: [], nodes: ['b'] });
    assert.match(named.nodes[0]?.message ?? '', /the agent does not serve/);
  });
});
