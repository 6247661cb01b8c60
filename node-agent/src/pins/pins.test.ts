import assert from 'node:assert/strict';
import { until } from '@hearth/common/testing';
import { TestCluster } from '../testing/cluster.ts';
import { directorySource, fileRow } from '../testing/fake_origin.ts';

const soon = () => AbortSignal.timeout(300_000);

describe('pins', () => {
  let cluster: TestCluster;
  let manifest: string;
  async function start(names: string[]) {
    cluster = await TestCluster.start(names, [fileRow('a.bin', 10n), fileRow('b.bin', 20n)]);
    const request = { source: directorySource, include: [], exclude: [] };
    ({ manifest } = (await cluster.agent('a').resolution.add('d', request, () => {}, soon())).dataset);
  }
  afterEach(async () => cluster.close());

  const asked = (owner: string, paths: string[] = []) => {
    return { kind: 'pin' as const, dataset: 'd', manifest, paths, owner, evict: false };
  };
  const held = (node: string, owner: string) => cluster.engine(node).pins.get(manifest)?.has(`d/${owner}`) === true;

  it('of eight agents are set by one call', async () => {
    const names = ['a', 'b', 'c', 'e', 'f', 'g', 'h', 'i'];
    await start(names);
    // Before the first use, agents fetch manifests and obtain leases.
    await cluster.agent('a').requests.ask(asked('first'), names, soon());
    for (let round = 0; round < 10; round++) {
      const owner = `p/${round}`;
      const answers = await cluster.agent('a').requests.ask(asked(owner), names, soon());
      assert.ok(answers.every(({ errorCode }) => errorCode === undefined));
      assert.ok(names.every((node) => held(node, owner)));
    }
  });

  it('are released by deleting their records, also on absent agents', async () => {
    await start(['a', 'b', 'c']);
    for (const owner of ['p/1/x', 'p/1/y', 'p/2/x']) await cluster.agent('a').requests.ask(asked(owner), [], soon());
    await cluster.remove('c');
    const pins = await cluster.agent('b').pins.list('p/1/', soon());
    assert.equal(pins.length, 6);
    assert.equal(await cluster.agent('b').pins.release(pins, soon()), 6);
    for (const node of ['a', 'b']) await until(() => !held(node, 'p/1/x') && !held(node, 'p/1/y'));
    assert.ok(held('a', 'p/2/x'));
    await cluster.add('c');
    await until(() => held('c', 'p/2/x'));
    assert.equal(held('c', 'p/1/x'), false);
  });

  it('survive being released and set again at once', async () => {
    await start(['a']);
    const { pins } = cluster.agent('a');
    const pin = { dataset: 'd', manifest, paths: [], owner: 'p/1' };
    for (let round = 0; round < 10; round++) {
      await pins.pin(pin, soon());
      await pins.release(await pins.list('p/1', soon()), soon());
      await pins.pin(pin, soon());
    }
    // Waits until the mirror has seen every round.
    await cluster.agent('a').requests.ask(asked('other'), [], soon());
    await until(() => pins.of('d').length === 2);
    assert.ok(held('a', 'p/1'));
  });

  it('of one owner are separate for each dataset, even with common files', async () => {
    await start(['a']);
    const request = { source: directorySource, include: [], exclude: [] };
    await cluster.agent('a').resolution.add('e', request, () => {}, soon());
    const { pins } = cluster.agent('a');
    for (const dataset of ['d', 'e']) await pins.pin({ dataset, manifest, paths: [], owner: 'user' }, soon());
    await pins.unpin('e', 'user');
    assert.ok(held('a', 'user'));
  });

  it('of one owner have one choice of files', async () => {
    await start(['a']);
    const { pins } = cluster.agent('a');
    await pins.pin({ dataset: 'd', manifest, paths: ['a.bin'], owner: 'p' }, soon());
    await pins.pin({ dataset: 'd', manifest, paths: ['b.bin'], owner: 'p' }, soon());
    assert.equal(cluster.engine('a').pins.get(manifest)?.get('d/p')?.length, 1);
    assert.deepEqual(
      (await pins.list('p', soon())).map(({ paths }) => paths),
      [['b.bin']],
    );
  });
});
