import assert from 'node:assert/strict';
import { HearthError } from '@hearth/common';
import { until } from '@hearth/common/testing';
import { TestCluster } from '../testing/cluster.ts';
import { revisionKey } from '../testing/fake_engine.ts';
import { directorySource, fileRow } from '../testing/fake_origin.ts';
import type { DatasetRequest } from './record.ts';

const noneOwn = { credentialed: [], sourceHasNone: false };

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

  it('are listed once however many agents are asked, and peers supply the manifest to the others', async () => {
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

  it('are named to clients by every agent, at their current revision', async () => {
    const { dataset } = await add('a');
    const named = (node: string) =>
      cluster.engine(node).named.map(({ dataset: name, manifest }) => `${name} ${manifest}`);
    const present = [`d ${dataset.manifest}`];
    for (const node of ['a', 'b', 'c'])
      await until(`${node} names it`, () => JSON.stringify(named(node)) === JSON.stringify(present));
  });

  it('fail at once for clients when unknown, and make clients wait when the manifest is still missing', async () => {
    const engine = cluster.engine('c');
    assert.deepEqual([engine.named, engine.awaited], [[], []], 'an agent without datasets says so');
    const open = engine.openManifest.bind(engine);
    const arrived = Promise.withResolvers<void>();
    engine.openManifest = async (digest) => {
      await arrived.promise;
      return await open(digest);
    };
    await add('a');
    await until('it is waited for', () => engine.awaited?.includes('d') === true);
    assert.deepEqual(engine.named, []);
    arrived.resolve();
    await until('it is named', () => engine.named.length === 1);
    assert.deepEqual(engine.awaited, []);
  });

  it('take other mirrors when added again, and refuse invalid ones', async () => {
    const mirrored = (...paths: string[]): DatasetRequest => {
      const sources = paths.map((path) => ({
        ...directorySource,
        kind: { $case: 'directory' as const, value: { path } },
      }));
      return { ...request, source: { ...directorySource, mirrors: { ...noneOwn, sources } } };
    };
    const { dataset } = await add('a', 'd', mirrored('/copy'));
    assert.equal(dataset.source.mirrors?.sources.length, 1);
    await add('b', 'd', mirrored('/copy', '/other'));
    assert.equal((await cluster.agent('a').datasets.get('d')).source.mirrors?.sources.length, 2);
    const key = revisionKey({ manifest: dataset.manifest, dataset: 'd' });
    const names = (node: string) => (cluster.engine(node).mirrors.get(key) ?? []).map(({ name }) => name).join(' ');
    for (const node of ['a', 'b', 'c']) await until(`${node} reads both`, () => names(node) === '/copy /other');
    await assert.rejects(add('a', 'd', mirrored('/data')), { code: 'InvalidArgument', message: /named twice/ });
    await add('a');
    assert.equal((await cluster.agent('a').datasets.get('d')).source.mirrors, undefined);
  });

  it('have every agent wait for their origin, five minutes or as asked when added again', async () => {
    const { dataset } = await add('a', 'd');
    const key = revisionKey({ manifest: dataset.manifest, dataset: 'd' });
    const waits = (node: string) => cluster.engine(node).originWaits.get(key);
    for (const node of ['a', 'b', 'c']) await until(`${node} waits`, () => waits(node) === 300_000);
    const patient = { ...request, source: { ...directorySource, originWaitSeconds: 20 } };
    const { unchanged } = await add('b', 'd', patient);
    assert.equal(unchanged, true);
    for (const node of ['a', 'b', 'c']) await until(`${node} waits for less`, () => waits(node) === 20_000);
  });

  it('say on which node reads wait for their origin', async () => {
    const { dataset } = await add('a', 'd');
    const source = { name: '', bytes: 0n, requests: 0n, failures: 0n, stragglers: 0n, unproved: 0n };
    const key = revisionKey({ manifest: dataset.manifest, dataset: 'd' });
    cluster.engine('b').sourceStatistics.set(key, [{ ...source, aside: 'reads wait for it' }]);
    const seen = () => cluster.agent('b').statistics.current?.residency.d?.sourcesAside ?? [];
    await until('the node knows it', () => seen().join() === 'the origin: reads wait for it');
  });

  it('show progress to callers that wait for another agent', async () => {
    // The sequential listing takes longer than the other agent needs to start waiting.
    const files = 300;
    cluster.origin.rows = Array.from({ length: files }, (_, index) => fileRow(`${index}`, 1n));
    cluster.origin.listMs = 60_000;
    const seen: number[] = [];
    const leading = add('a');
    await until(() => cluster.agent('b').datasets.resolvingMirror.get('d') !== undefined);
    const { resolution } = cluster.agent('b');
    const waiting = resolution.add('d', request, (progress) => seen.push(progress.filesListed), soon());
    await until('progress', async () => {
      await cluster.clock.advance(cluster.origin.listMs);
      return seen.some((listed) => listed > 0 && listed < files);
    });
    cluster.origin.listMs = 0;
    await cluster.clock.advance(60_000);
    await Promise.all([leading, waiting]);
  });

  it('fail when the origin is silent for too long', async () => {
    const { listingMs } = cluster.timings;
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
    const recorded = () => cluster.agent('a').datasets.mirror.get('d')?.errorCode === 'DeadlineExceeded';
    await until('the mirror has the record', recorded);
  });

  it("are refused above the agent's limits of entries and name lengths", async () => {
    Object.assign(cluster.listing, { entries: rows.length - 1 });
    await assert.rejects(add('a'), { code: 'OutOfSpace', message: /has more than \d+ entries; .*origins\.maxEntries/ });
    Object.assign(cluster.listing, { entries: rows.length, nameBytes: 5 });
    await assert.rejects(add('a'), { code: 'OutOfSpace', message: /names of more than 5 bytes/ });
    Object.assign(cluster.listing, { nameBytes: 1_000 });
    assert.equal((await add('a')).dataset.state, 'Ready');
  });

  it('report an unchanged origin, and take the new state of a changed one', async () => {
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

  it('include only files that match the patterns', async () => {
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

  it('fail with the reason for all callers, and recover with the next listing', async () => {
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
    assert.deepEqual([kept.state, kept.message], ['Ready', 'the last listing of the origin failed: away']);
  });

  it('are listed by the next agent when the listing agent dies', async () => {
    cluster.origin.listMs = 24 * 3_600_000;
    const dying = add('a').catch(() => undefined);
    await until(() => cluster.agent('b').datasets.resolvingMirror.get('d') !== undefined);
    const waiting = add('b');
    await until(() => cluster.origin.listed === 1);
    cluster.origin.listMs = 0;
    await cluster.remove('a', 'crash');
    await cluster.endLease('a');
    assert.equal((await waiting).dataset.state, 'Ready');
    assert.equal(cluster.origin.listed, 2);
    await cluster.clock.advance(24 * 3_600_000);
    await dying;
  });

  it('fail when the origin has changed, and are ready after the next listing', async () => {
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

  it('delete their manifests with their last revision', async () => {
    const { dataset } = await add('a');
    await until(() => cluster.engine('c').disk.manifests.has(dataset.manifest));
    await cluster.agent('b').removal.remove('d', { evict: true }, soon());
    await assert.rejects(cluster.agent('a').datasets.get('d'), { code: 'NotFound' });
    for (const name of ['a', 'b', 'c']) await until(() => !cluster.engine(name).disk.manifests.has(dataset.manifest));
  });

  it('keep a manifest being listed for one dataset while another dataset of the same files is removed', async () => {
    const { dataset } = await add('a', 'former');
    const heardOfRemoval = (node: string) => !cluster.agent(node).datasets.isRevision(dataset.manifest);
    const engine = cluster.engine('a');
    const finish = engine.finishManifest.bind(engine);
    engine.finishManifest = async (builder) => {
      const info = await finish(builder);
      await cluster.agent('b').removal.remove('former', { evict: false }, soon());
      await until('the agent that lists has heard of the removal', () => heardOfRemoval('a'));
      return info;
    };
    assert.equal((await add('a', 'new')).dataset.manifest, dataset.manifest);
    for (const name of ['a', 'b', 'c']) {
      await cluster.agent(name).keeper.openedSoon(dataset.manifest, soon());
      assert.ok(cluster.engine(name).disk.manifests.has(dataset.manifest));
    }
    // The removal includes the kept bytes.
    await cluster.agent('c').removal.remove('new', { evict: false }, soon());
    assert.ok(cluster.engine('c').advised.includes('memory'), 'what was in memory is not kept');
    for (const name of ['a', 'b', 'c']) await until(() => !cluster.engine(name).disk.manifests.has(dataset.manifest));
  });

  it('keep a manifest whose record was written although the answer was lost', async () => {
    const store = cluster.store('a');
    const transact = store.transact.bind(store);
    let heard: (() => void) | undefined;
    // From the write of the record on, the store neither answers nor delivers events.
    store.transact = async (transaction, options) => {
      if (transaction.success.some((one) => 'key' in one && one.key.startsWith('revisions/'))) {
        heard = store.holdWatches();
        await transact(transaction, options);
      }
      if (heard !== undefined) throw new HearthError('Unavailable', 'the answer was lost');
      return await transact(transaction, options);
    };
    await assert.rejects(add('a'), { code: 'Unavailable', message: /the answer was lost/ });
    store.transact = transact;
    const { datasets, keeper } = cluster.agent('a');
    const { manifest } = await datasets.get('d');
    // Longer than the agent takes to read the record itself.
    await cluster.clock.advance(10_000);
    heard?.();
    await until('the agent has heard of it', () => datasets.isRevision(manifest));
    await keeper.openedSoon(manifest, soon());
    assert.ok(cluster.engine('a').disk.manifests.has(manifest));
  });

  it('open manifests from peers while an equal manifest is being removed', async () => {
    const { dataset } = await add('a', 'former');
    const { manifest } = dataset;
    const engine = cluster.engine('c');
    await until(() => engine.disk.manifests.has(manifest));
    const remove = engine.removeManifest.bind(engine);
    const removing = Promise.withResolvers<void>();
    const removed = Promise.withResolvers<void>();
    engine.removeManifest = async (digest) => {
      removing.resolve();
      await removed.promise;
      await remove(digest);
    };
    await cluster.agent('b').removal.remove('former', { evict: false }, soon());
    await removing.promise;
    await add('a', 'new');
    const opened = cluster.agent('c').keeper.openedSoon(manifest, soon());
    await until('the new one is heard of', () => cluster.agent('c').datasets.isRevision(manifest));
    removed.resolve();
    await opened;
    assert.ok(engine.disk.manifests.has(manifest));
  });

  it('name the unreachable agents when no agent supplies a manifest', async () => {
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
        /the agents that may have it do not answer \(b at 10\.0\.0\.2:7527: the cluster secret was not proved; give all agents the same secret\)$/,
    });
  });

  it("bound a caller's wait for an agent that does not answer", async () => {
    const { keeper } = cluster.agent('a');
    cluster.engine('a').openManifest = () => new Promise(() => {});
    const waiting = keeper.openedSoon('cd'.repeat(32), AbortSignal.timeout(50));
    await assert.rejects(waiting, {
      code: 'Unavailable',
      message: /did not answer in time; check the other agents$/,
    });
  });

  it('exist for an agent that starts later', async () => {
    const { dataset } = await add('a');
    await cluster.add('d');
    await until(() => cluster.engine('d').disk.manifests.has(dataset.manifest));
  });
});
