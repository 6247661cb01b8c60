import assert from 'node:assert/strict';
import { HearthError } from '@hearth/common';
import { until } from '@hearth/common/testing';
import { TestCluster } from '../testing/cluster.ts';
import { revisionKey } from '../testing/fake_engine.ts';
import { directorySource, fileRow } from '../testing/fake_origin.ts';
import type { DatasetRequest } from './record.ts';

const rows = [fileRow('a.bin', 1000n), fileRow('b/c.bin', 2000n), fileRow('b/d.json', 10n)];
const request: DatasetRequest = { source: directorySource, include: [], exclude: [] };
const soon = () => AbortSignal.timeout(300_000);

describe('datasets', () => {
  let cluster: TestCluster;
  beforeEach(async () => {
    cluster = await TestCluster.start(['a', 'b', 'c'], rows);
  });
  afterEach(async () => cluster.close());

  const add = (node: string, name = 'd', what = request) =>
    cluster.agent(node).resolution.add(name, what, () => {}, soon());

  it('are listed once however many agents are asked, and the others take the manifest from peers', async () => {
    cluster.origin.listMs = 40;
    const results = await Promise.all([add('a'), add('b'), add('c'), add('a')]);
    assert.equal(cluster.origin.listed, 1);
    assert.equal(new Set(results.map((result) => result.dataset.manifest)).size, 1);
    const { dataset } = results[0];
    assert.deepEqual([dataset.files, dataset.bytes, dataset.state, dataset.revision], [3, 3010n, 'Ready', 'r1']);
    for (const name of ['a', 'b', 'c']) {
      await until(() => cluster.engine(name).disk.manifests.has(dataset.manifest));
      const key = revisionKey({ manifest: dataset.manifest, dataset: 'd' });
      await until(() => cluster.engine(name).bases.get(key)?.path === '/data');
    }
  });

  it('show progress to those who wait for another agent', async () => {
    cluster.origin.listMs = 300;
    const seen: number[] = [];
    const leading = add('a');
    await until(() => cluster.agent('b').datasets.resolvingMirror.get('d') !== undefined);
    await cluster.agent('b').resolution.add('d', request, (progress) => seen.push(progress.filesListed), soon());
    await leading;
    assert.ok(
      seen.some((files) => files > 0 && files < 3),
      `seen ${seen}`,
    );
  });

  it('are given up when the origin lists nothing more for long, and not while it does', async () => {
    const { listingMs } = cluster.pace;
    const meanwhile = async <T>(work: Promise<T>): Promise<T> => {
      let ended = false;
      const end = () => {
        ended = true;
      };
      work.then(end, end);
      await until(async () => {
        await cluster.clock.advance(listingMs / 4);
        return ended;
      });
      return await work;
    };
    cluster.origin.listMs = (listingMs * 3) / 4;
    assert.equal((await meanwhile(add('a', 'slow'))).dataset.files, rows.length);
    cluster.origin.listMs = 24 * 3_600_000;
    await assert.rejects(meanwhile(add('a')), {
      code: 'DeadlineExceeded',
      message: /^\/data listed no more files for 10 min while it was listed/,
    });
    assert.equal(cluster.agent('a').datasets.mirror.get('d')?.errorCode, 'DeadlineExceeded');
  });

  it('are refused when they have more entries, or longer names, than the agent may hold', async () => {
    Object.assign(cluster.listing, { entries: rows.length - 1 });
    await assert.rejects(add('a'), { code: 'OutOfSpace', message: /has more than \d+ entries; .*origins\.maxEntries/ });
    Object.assign(cluster.listing, { entries: rows.length, nameBytes: 5 });
    await assert.rejects(add('a'), { code: 'OutOfSpace', message: /names of more than 5 bytes/ });
    Object.assign(cluster.listing, { nameBytes: 1_000 });
    assert.equal((await add('a')).dataset.state, 'Ready');
  });

  it('say when nothing has changed, and take the new state when something has', async () => {
    const first = await add('a');
    const again = await add('b');
    assert.deepEqual([first.unchanged, again.unchanged], [false, true]);
    cluster.origin.rows = [...rows, fileRow('new.bin', 5n)];
    cluster.origin.name = 'r2';
    const changed = await add('c');
    assert.equal(changed.unchanged, false);
    assert.equal(changed.dataset.files, 4);
    assert.equal(changed.dataset.revision, 'r2');
    assert.equal(changed.dataset.createdAt, first.dataset.createdAt);
    await until(() => cluster.agent('a').datasets.revisionsOf('d').length === 2);
  });

  it('keep to the patterns', async () => {
    const { dataset } = await add('a', 'd', { ...request, include: ['b/'], exclude: ['*.json'] });
    assert.deepEqual([dataset.files, dataset.bytes], [1, 2000n]);
    await assert.rejects(add('a', 'e', { ...request, include: ['*.none'] }), {
      code: 'NotFound',
      message: /no files that the patterns choose/,
    });
  });

  it('refuse another source under a name in use, and credentials in URLs', async () => {
    await add('a');
    const other = {
      ...request,
      source: { ...directorySource, kind: { $case: 'directory' as const, value: { path: '/other' } } },
    };
    await assert.rejects(add('b', 'd', other), { code: 'AlreadyExists' });
    await assert.rejects(add('b', 'bad/name'), { code: 'InvalidArgument' });
    const urls = ['https://host/file?signature=abc'];
    const http = {
      ...request,
      source: { ...directorySource, kind: { $case: 'http' as const, value: { urls, sha256: {} } } },
    };
    await assert.rejects(
      add('b', 'h', http),
      (error: HearthError) => error.code === 'InvalidArgument' && !error.message.includes('abc'),
    );
  });

  it('fail with the reason for all who ask, and recover with the next look', async () => {
    cluster.origin.listError = new HearthError('PermissionDenied', 'the bucket refuses the credentials; check them');
    cluster.origin.listMs = 30;
    const results = await Promise.allSettled([add('a'), add('b')]);
    for (const result of results) assert.equal(result.status === 'rejected' && result.reason.code, 'PermissionDenied');
    assert.equal(cluster.origin.listed, 1);
    const failed = await cluster.agent('c').datasets.get('d');
    assert.deepEqual([failed.state, failed.errorCode], ['Failed', 'PermissionDenied']);
    await assert.rejects(cluster.agent('c').datasets.usable('d'), { code: 'PermissionDenied' });
    cluster.origin.listError = undefined;
    assert.equal((await add('c')).dataset.state, 'Ready');
    cluster.origin.listError = new HearthError('Unavailable', 'away');
    await assert.rejects(add('c'), { code: 'Unavailable' });
    const kept = await cluster.agent('a').datasets.get('d');
    assert.deepEqual([kept.state, kept.message], ['Ready', 'the last look at the origin failed: away']);
  });

  it('are listed by the next agent when the one that lists dies', async () => {
    cluster.origin.listMs = 24 * 3_600_000;
    const dying = add('a').catch(() => undefined);
    await until(() => cluster.agent('b').datasets.resolvingMirror.get('d') !== undefined);
    const waiting = add('b');
    await until(() => cluster.origin.listed === 1);
    await cluster.remove('a', 'crash');
    cluster.origin.listMs = 0;
    assert.equal((await waiting).dataset.state, 'Ready');
    assert.equal(cluster.origin.listed, 2);
    await cluster.clock.advance(24 * 3_600_000);
    await dying;
  });

  it('fail when the origin has changed, and are ready again after the next look', async () => {
    const { dataset } = await add('a');
    await until(() => cluster.agent('b').datasets.isRevision(dataset.manifest));
    const message = 'its size is 5, not 1000';
    cluster.agent('b').onEvent({ kind: 'originChanged', manifest: dataset.manifest, dataset: 'd', entry: 1, message });
    await until(async () => (await cluster.agent('c').datasets.get('d')).state === 'Failed');
    const failed = await cluster.agent('c').datasets.get('d');
    assert.equal(failed.errorCode, 'OriginChanged');
    assert.match(
      failed.message,
      /no longer has a\.bin as it was listed: its size is 5, not 1000; add the dataset again/,
    );
    assert.equal((await add('c')).dataset.state, 'Ready');
  });

  it('take their manifests along when their last revision is removed', async () => {
    const { dataset } = await add('a');
    await until(() => cluster.engine('c').disk.manifests.has(dataset.manifest));
    await cluster.agent('b').removal.remove('d', { evict: true }, soon());
    await assert.rejects(cluster.agent('a').datasets.get('d'), { code: 'NotFound' });
    for (const name of ['a', 'b', 'c']) await until(() => !cluster.engine(name).disk.manifests.has(dataset.manifest));
  });

  it('name the agents that cannot be asked when a manifest is nowhere to be had', async () => {
    const digest = 'ab'.repeat(32);
    const { keeper } = cluster.agent('a');
    const shortly = () => AbortSignal.timeout(100);
    await assert.rejects(keeper.openedSoon(digest, shortly()), { code: 'NotFound' });
    cluster
      .engine('a')
      .peerErrors.set('b', 'b at 10.0.0.2:7527: the cluster secret was not proved; give all agents the same secret');
    await assert.rejects(keeper.openedSoon(digest, shortly()), {
      code: 'Unavailable',
      message:
        /cannot be asked \(b at 10\.0\.0\.2:7527: the cluster secret was not proved; give all agents the same secret\)$/,
    });
  });

  it('are there for an agent that starts later', async () => {
    const { dataset } = await add('a');
    await cluster.add('d');
    await until(() => cluster.engine('d').disk.manifests.has(dataset.manifest));
  });
});
