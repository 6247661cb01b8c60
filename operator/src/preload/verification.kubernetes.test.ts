import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { elapse, sha256, until } from '@hearth/common/testing';
import { datasetObject } from '../dataset/testing/dataset_cluster.ts';
import { conditionOf, mib, PreloadCluster } from './testing/preload_cluster.ts';

describe('CachePreloads that compare with the digests of the origin', () => {
  let cluster: PreloadCluster;
  before(async function () {
    cluster = await PreloadCluster.start(this);
    for (const name of ['n1', 'n2']) await cluster.addNode(name);
    await cluster.startExecutor();
  });
  after(async () => cluster?.stop());

  /** A Dataset whose spec gives the SHA-256 of these bytes by file, when it is Ready. */
  async function dataset(name: string, told: Record<string, Buffer>, sent = told): Promise<void> {
    const urls = Object.entries(sent).map(([file, bytes]) => cluster.origin.add(`${name}/${file}`, bytes));
    const digests = Object.fromEntries(Object.entries(told).map(([file, bytes]) => [file, sha256(bytes)]));
    await cluster.kubernetes.apply(datasetObject(name, { source: { http: { urls, sha256: digests } } }));
    await cluster.kubernetes.reason(name, 'Ready');
    cluster.origin.sentBytes = 0;
  }

  const preload = (name: string, nodes: string[], verify: string) =>
    cluster.preload(name, { placement: { nodeNames: nodes }, verify });

  it('read every byte again and count it', async () => {
    const files = { 'a.bin': randomBytes(9 * mib), 'b.bin': randomBytes(5 * mib) };
    const size = 14 * mib;
    await dataset('right', files);
    await preload('right', ['n1', 'n2'], 'SourceDigest');
    const { status } = await cluster.ready('right');
    assert.deepEqual(
      status?.nodes?.map(({ name, bytesReady, bytesVerified }) => [name, bytesReady, bytesVerified]),
      ['n1', 'n2'].map((name) => [name, size, size]),
    );
    assert.equal(status?.bytesVerified, 2 * size);
    await cluster.sentOnce(size);
  });

  it('read what is there already too, which others do not', async () => {
    const size = 6 * mib;
    await dataset('there', { 'a.bin': randomBytes(size) });
    await cluster.hearth.json('n1', 'warm', 'default.there', '--node', 'n1');
    await cluster.known('there', 'n1', size);
    cluster.origin.sentBytes = 0;
    await preload('there', ['n1'], 'Checksum');
    const trusting = await cluster.ready('there');
    assert.deepEqual([trusting.status?.bytesReady, trusting.status?.bytesVerified], [size, 0]);
    await preload('there', ['n1'], 'SourceDigest');
    const { status } = await cluster.expect('there', 'Ready for what is asked now', ({ metadata, status: now }) => {
      return now?.phase === 'Ready' && now.observedGeneration === metadata.generation && now.bytesVerified === size;
    });
    assert.deepEqual([status?.bytesReady, cluster.origin.sentBytes], [size, 0]);
  });

  it('are never Ready with bytes that differ, and name the file', async () => {
    const good = randomBytes(3 * mib);
    const promised = randomBytes(2 * mib);
    const torn = Buffer.from(promised);
    torn[mib] = (torn[mib] as number) ^ 1;
    await dataset('wrong', { 'a.bin': good, 'b.bin': promised }, { 'a.bin': good, 'b.bin': torn });
    await preload('wrong', ['n1', 'n2'], 'SourceDigest');
    const differs = /b\.bin: the SHA-256 of the origin's bytes differs from the digest/;
    const failed = await cluster.expect(
      'wrong',
      'refused on both nodes',
      ({ status }) => (status?.nodes ?? []).filter(({ phase }) => phase === 'Failed').length === 2,
    );
    const ready = conditionOf(failed, 'Ready');
    assert.deepEqual([ready.status, ready.reason], ['False', 'Corrupt']);
    assert.match(ready.message, differs);
    for (const node of failed.status?.nodes ?? []) assert.match(node.message, differs);
    assert.match(failed.status?.waitingFor ?? '', /tries again/);
    await until('an event that says so', async () => {
      const events = await cluster.kubernetes.eventsOf('CachePreload', 'wrong');
      return events.some((event) => event.startsWith('Warning Corrupt') && differs.test(event));
    });
    // It is tried again after two seconds, and after four.
    for (let second = 0; second < 8; second++) {
      assert.notEqual((await cluster.get('wrong')).status?.phase, 'Ready');
      const told = cluster.executor?.readiness.of('default/wrong');
      for (const [node, { percent }] of told ?? []) assert.ok(percent < 100, `${node} has ${percent} %`);
      await elapse(1_000, 'it would be Ready');
    }
    assert.equal((await cluster.get('wrong')).status?.nodesReady, 0);
  });

  it('are Ready when the bytes were evicted and the origin sends the right ones', async () => {
    const promised = randomBytes(2 * mib);
    await dataset('mended', { 'a.bin': promised }, { 'a.bin': randomBytes(2 * mib) });
    await preload('mended', ['n1'], 'SourceDigest');
    await cluster.expect('mended', 'refused', ({ status: now }) => now?.nodes?.[0]?.phase === 'Failed');
    await cluster.remove('mended');
    await cluster.hearth.json('n1', 'evict', 'default.mended');
    await cluster.removeDataset('mended');
    await dataset('mended', { 'a.bin': promised });
    await preload('mended', ['n1'], 'SourceDigest');
    const { status } = await cluster.ready('mended');
    assert.equal(status?.bytesVerified, 2 * mib);
    await cluster.sentOnce(2 * mib);
  });
});
