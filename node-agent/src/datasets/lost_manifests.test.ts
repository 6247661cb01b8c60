import assert from 'node:assert/strict';
import { HearthError } from '@hearth/common';
import { until } from '@hearth/common/testing';
import { TestCluster } from '../testing/cluster.ts';
import { FakeDisk } from '../testing/fake_disk.ts';
import { directorySource, fileRow } from '../testing/fake_origin.ts';
import type { DatasetRequest } from './record.ts';

const rows = [fileRow('a.bin', 1000n), fileRow('b/c.bin', 2000n)];
const request: DatasetRequest = { source: directorySource, include: [], exclude: [] };
const soon = () => AbortSignal.timeout(300_000);

describe('a dataset whose manifest no ready agent has', () => {
  let cluster: TestCluster;
  beforeEach(async () => {
    cluster = await TestCluster.start(['a', 'b', 'c'], rows);
  });
  afterEach(async () => cluster.close());

  const add = (node: string, name = 'd') => cluster.agent(node).resolution.add(name, request, () => {}, soon());
  const recordOf = (name = 'd') => cluster.agent('b').datasets.get(name);
  const has = (node: string, manifest: string) => cluster.engine(node).disk.manifests.has(manifest);

  /** Replaces an agent by another of the same name, by default on an empty disk. */
  const replace = async (node: string, disk = new FakeDisk()): Promise<void> => {
    await cluster.remove(node);
    cluster.disks.set(node, disk);
    await cluster.add(node);
  };
  /** Waits while advancing the clock. */
  const eventually = async (what: string, condition: () => boolean | Promise<boolean>): Promise<void> => {
    await until(what, async () => {
      await cluster.clock.advance(cluster.timings.goneGraceMs);
      return await condition();
    });
  };

  it('is listed again once, and readable by all agents', async () => {
    const { manifest } = (await add('a')).dataset;
    for (const node of ['a', 'b', 'c']) await until(() => has(node, manifest));
    for (const node of ['a', 'b', 'c']) await cluster.remove(node);
    cluster.disks.clear();
    for (const node of ['a', 'b', 'c']) await cluster.add(node);
    await eventually('all have it', () => ['a', 'b', 'c'].every((node) => has(node, manifest)));
    assert.equal(cluster.origin.listed, 2);
    const { state, attempts, lastAttempt } = await recordOf();
    assert.deepEqual([state, attempts, lastAttempt.unchanged], ['Ready', 2, true]);
  });

  it('is listed again when the listing agent was replaced before any other had a copy', async () => {
    const { manifest } = (await add('a', 'team-a.model')).dataset;
    for (const node of ['b', 'c']) await until(() => has(node, manifest));
    // No other agent has a copy before the agent that listed the dataset is gone.
    for (const node of ['b', 'c']) {
      const engine = cluster.engine(node);
      const open = engine.openManifest.bind(engine);
      engine.openManifest = async (digest) => {
        if (cluster.origin.listed === 2 && !engine.disk.manifests.has(digest))
          throw new HearthError('NotFound', 'not yet');
        return await open(digest);
      };
    }
    await cluster.agent('b').removal.remove('team-a.model', { evict: false }, soon());
    for (const node of ['a', 'b', 'c']) await until(() => !has(node, manifest));
    await add('a', 'team-b.model');
    await replace('a');
    assert.equal((await recordOf('team-b.model')).state, 'Ready');
    assert.deepEqual(
      ['a', 'b', 'c'].filter((node) => has(node, manifest)),
      [],
    );
    await eventually('all have it', () => ['a', 'b', 'c'].every((node) => has(node, manifest)));
    assert.equal(cluster.origin.listed, 3);
    assert.equal((await recordOf('team-b.model')).state, 'Ready');
  });

  it('is not listed again while an agent that may have it does not answer', async () => {
    const { manifest } = (await add('a')).dataset;
    for (const node of ['b', 'c']) await until(() => has(node, manifest));
    for (const node of ['a', 'b', 'c']) await cluster.remove(node);
    cluster.disks.clear();
    await cluster.add('b');
    cluster.engine('b').peerErrors.set('a', 'a at 10.0.0.1:7527: connection refused');
    let looks = 0;
    const engine = cluster.engine('b');
    const open = engine.openManifest.bind(engine);
    engine.openManifest = async (digest) => {
      looks++;
      return await open(digest);
    };
    await eventually('it was looked for again and again', () => looks > 5);
    assert.equal(cluster.origin.listed, 1);
    engine.peerErrors.clear();
    await eventually('it is there', () => has('b', manifest));
    assert.equal(cluster.origin.listed, 2);
  });

  it('fails while the listing fails, and becomes ready with the origin', async () => {
    const { manifest } = (await add('a')).dataset;
    for (const node of ['a', 'b', 'c']) await cluster.remove(node);
    cluster.disks.clear();
    cluster.origin.listError = new HearthError('Unavailable', 'the origin is away');
    await cluster.add('b');
    await eventually('it has failed', async () => (await recordOf()).state === 'Failed');
    const { errorCode, message } = await recordOf();
    assert.equal(errorCode, 'Unavailable');
    assert.match(
      message,
      /^no agent has the dataset's list of files any more, and listing it again failed: the origin is away$/,
    );
    await assert.rejects(cluster.agent('b').datasets.usable('d'), { code: 'Unavailable' });
    await eventually('it is tried again', () => cluster.origin.listed >= 4);
    cluster.origin.listError = undefined;
    await eventually('it is ready', async () => (await recordOf()).state === 'Ready');
    assert.ok(has('b', manifest));
  });

  it('becomes ready when an agent comes back with the manifest, even without the origin', async () => {
    const { manifest } = (await add('a')).dataset;
    const disk = cluster.disks.get('a');
    for (const node of ['a', 'b', 'c']) await cluster.remove(node);
    cluster.disks.clear();
    cluster.origin.listError = new HearthError('Unavailable', 'the origin is away');
    await cluster.add('b');
    await eventually('it has failed', async () => (await recordOf()).state === 'Failed');
    assert.ok(disk !== undefined);
    cluster.disks.set('a', disk);
    await cluster.add('a');
    await until('it is ready', async () => (await recordOf()).state === 'Ready');
    const { errorCode, message } = await recordOf();
    assert.deepEqual([errorCode, message], [undefined, 'the last listing of the origin failed: the origin is away']);
    await cluster.agent('b').keeper.openedSoon(manifest, soon());
  });
});
