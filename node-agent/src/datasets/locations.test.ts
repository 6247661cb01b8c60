import assert from 'node:assert/strict';
import { epochMs, HearthError, silentLogger } from '@hearth/common';
import { elapse, settle, TestClock, until } from '@hearth/common/testing';
import type { DatasetRevision } from '@hearth/engine';
import { CredentialCache } from '../credentials/index.ts';
import { engineOptions, testTimings } from '../testing/cluster.ts';
import { FakeEngine, revisionKey } from '../testing/fake_engine.ts';
import { FakeFabric } from '../testing/fake_fabric.ts';
import { directorySource, FakeOrigin, fileRow } from '../testing/fake_origin.ts';
import { Locations } from './locations.ts';

describe('locations', () => {
  let engine: FakeEngine;
  let clock: TestClock;
  let origin: FakeOrigin;
  let locations: Locations;
  let manifest: string;
  let credentials: CredentialCache;
  let credentialed = false;
  let openError: HearthError | undefined;
  const opened: (string | undefined)[] = [];
  beforeEach(async () => {
    engine = new FakeEngine(
      new FakeFabric(),
      engineOptions('a', () => {}),
    );
    clock = new TestClock();
    origin = new FakeOrigin([]);
    origin.originBase = undefined;
    credentialed = false;
    credentials = new CredentialCache(() => credentialed);
    const builder = engine.createManifestBuilder({ skipUnusable: false });
    builder.add(Array.from({ length: 600 }, (_, index) => fileRow(`f${String(index).padStart(4, '0')}`, 1n)));
    manifest = (await engine.finishManifest(builder)).digest;
    opened.length = 0;
    openError = undefined;
    const revision = (dataset: string) => ({
      dataset,
      manifest,
      source: directorySource,
      revision: 'r1',
      createdAt: 0,
    });
    const stored = ['d', 'e', 'new'];
    const recordOf = (of: DatasetRevision, known: string[]) =>
      of.manifest === manifest && known.includes(of.dataset) ? revision(of.dataset) : undefined;
    locations = new Locations(
      { engine, logger: silentLogger, clock, timings: testTimings },
      {
        revision: (of) => recordOf(of, ['d', 'e']),
        readRevision: async (of) => recordOf(of, stored),
      },
      (_source, _revision, given) => {
        opened.push(given?.token);
        if (openError !== undefined) throw openError;
        return origin;
      },
      credentials,
    );
  });
  afterEach(() => locations.close());

  const ask = (...entries: number[]) => askAs('d', ...entries);
  const askAs = (dataset: string, ...entries: number[]) =>
    locations.answer({ kind: 'locations', manifest, dataset, source: 0, entries, ahead: [] });
  const known = (dataset = 'd') => engine.locations.get(revisionKey({ manifest, dataset }))?.size ?? 0;

  const own = (token: string) => ({ token, accessKeyId: '', secretAccessKey: '', sessionToken: '' });

  it('wait for missing credentials, and never use others in their place', async () => {
    credentialed = true;
    ask(1);
    locations.prepare({ manifest, dataset: 'd' });
    await clock.advance(testTimings.requestMs - 1);
    assert.deepEqual(opened, []);
    credentials.set('d', own('t1'));
    await until(() => known() === 1);
    assert.deepEqual(opened, ['t1']);
    credentials.forget('d');
    locations.renew({ manifest, dataset: 'd' });
    ask(2);
    await clock.advance(testTimings.requestMs - 1);
    assert.equal(engine.failedLocations.length, 0);
    await clock.advance(1);
    await until(() => engine.failedLocations.length === 1);
    assert.equal(engine.failedLocations[0]?.error.code, 'Unavailable');
    assert.match(engine.failedLocations[0]?.error.message ?? '', /has not received the credentials of dataset d/);
  });

  it('are resolved again with new credentials, including pending ones', async () => {
    credentials.set('d', own('t1'));
    ask(1);
    await until(() => known() === 1);
    ask(2);
    credentials.set('d', own('t2'));
    locations.renew({ manifest, dataset: 'd' });
    await until(() => engine.locations.get(revisionKey({ manifest, dataset: 'd' }))?.has(2) ?? false);
    assert.equal(known(), 1, 'what the former credentials gave is forgotten');
    assert.deepEqual(opened, ['t1', 't2']);
    assert.equal(engine.failedLocations.length, 0);
    assert.equal(origin.closed, 1);
  });

  it('are resolved in batches, each entry by one request at a time', async () => {
    const held = Promise.withResolvers<void>();
    origin.locating = held.promise;
    ask(1, 2);
    ask(2, 3);
    await until(() => origin.located.length === 1);
    ask(1, 2, 3, 4);
    await until(() => origin.located.length === 2); // 4 alone: the others are on their way
    held.resolve();
    await until(() => known() === 4);
    assert.deepEqual(origin.located, [[1, 2, 3], [4]]);
    ask(...Array.from({ length: 596 }, (_, index) => index + 5));
    await until(() => known() === 600);
    assert.deepEqual(
      origin.located.slice(2).map((batch) => batch.length),
      [256, 256, 84],
    );
  });

  it('are resolved again when the engine asks again soon, because the origin refused them', async () => {
    ask(1);
    await until(() => known() === 1);
    ask(1);
    await until(() => origin.located.length === 2);
  });

  it('are served from memory until they expire', async () => {
    origin.expiresAt = epochMs(clock) + 3_600_000;
    const asked = async () => {
      engine.locations.clear();
      ask(1);
      await until(() => known() === 1);
      return origin.located.length;
    };
    assert.equal(await asked(), 1);
    await clock.advance(30_000);
    assert.equal(await asked(), 1);
    await clock.advance(3_600_000 - 30_000 - 60_000 - 30_001);
    assert.equal(await asked(), 1);
    await clock.advance(30_001);
    assert.equal(await asked(), 2, 'it would end under the hands of its reader');
  });

  it('without a waiting reader are resolved last, and only when that needs no requests', async () => {
    const askAhead = (entry: number, ahead: number[]) =>
      locations.answer({ kind: 'locations', manifest, dataset: 'd', source: 0, entries: [entry], ahead });
    askAhead(1, [1, 2, 3]);
    await until(() => known() === 3);
    assert.deepEqual(origin.located, [[1], [2, 3]]);
    origin.locatesFreely = false;
    askAhead(4, [5, 6]);
    await until(() => known() === 4);
    assert.deepEqual(origin.located.slice(2), [[4]]);
  });

  it('fail with the reason, and can be requested again', async () => {
    origin.locateError = new HearthError('PermissionDenied', 'the bucket refuses the credentials; check them');
    ask(1, 2);
    await until(() => engine.failedLocations.length === 1);
    assert.deepEqual(engine.failedLocations[0]?.entries, [1, 2]);
    assert.equal(engine.failedLocations[0]?.error.code, 'PermissionDenied');
    assert.match(engine.failedLocations[0]?.error.message ?? '', /^dataset d: the bucket refuses/);
    origin.locateError = undefined;
    ask(1);
    await until(() => known() === 1);
  });

  it('are unavailable when the origin does not answer in time', async () => {
    const held = Promise.withResolvers<void>();
    origin.locating = held.promise;
    ask(1);
    await until(() => origin.located.length === 1);
    await clock.advance(60_000);
    held.reject(new HearthError('Cancelled', 'the call was cancelled'));
    await until(() => engine.failedLocations.length === 1);
    assert.equal(engine.failedLocations[0]?.error.code, 'Unavailable');
    assert.match(engine.failedLocations[0]?.error.message ?? '', /did not locate the files within 60 s/);
  });

  it('fail together when one is missing, because there is no other source', async () => {
    origin.lacking.add('f0001');
    ask(1, 2, 3);
    await until(() => engine.failedLocations.length === 1);
    assert.deepEqual(engine.failedLocations[0]?.entries, [1, 2, 3]);
    assert.equal(engine.failedLocations[0]?.error.code, 'NotFound');
    assert.deepEqual(origin.located, [[1, 2, 3]]);
  });

  it('fail when the origin cannot be opened with the new credentials', async () => {
    const held = Promise.withResolvers<void>();
    origin.locating = held.promise;
    ask(1);
    await until(() => origin.located.length === 1);
    openError = new HearthError('InvalidArgument', 'an S3 source needs an access key');
    assert.throws(() => locations.renew({ manifest, dataset: 'd' }), { message: /needs an access key/ });
    await until(() => engine.failedLocations.length === 1);
    assert.deepEqual(engine.failedLocations[0]?.entries, [1]);
    held.resolve();
  });

  it('fail for unknown revisions and entries', async () => {
    locations.answer({ kind: 'locations', manifest: 'other', dataset: 'd', source: 0, entries: [1], ahead: [] });
    await until(() => engine.failedLocations.length === 1);
    assert.equal(engine.failedLocations[0]?.error.code, 'NotFound');
    ask(9999);
    await until(() => engine.failedLocations.length === 2);
    assert.equal(engine.failedLocations[1]?.error.code, 'InvalidArgument');
  });

  it('of one dataset never use the credentials of another dataset with the same files', async () => {
    credentials.set('d', own('t1'));
    credentials.set('e', own('t2'));
    ask(1);
    await until(() => known('d') === 1);
    askAs('e', 1);
    await until(() => known('e') === 1);
    assert.deepEqual(opened, ['t1', 't2']);
    askAs('removed', 1);
    askAs('', 1);
    await until(() => engine.failedLocations.length === 2);
    for (const { error } of engine.failedLocations) assert.equal(error.code, 'NotFound');
    assert.deepEqual(opened, ['t1', 't2']);
  });

  it('of a dataset that was just added are found in the store', async () => {
    askAs('new', 1);
    await until(() => known('new') === 1);
  });

  it('resolved with former credentials are not handed out', async () => {
    credentials.set('d', own('t1'));
    const [former, present] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    origin.locating = former.promise;
    ask(1);
    await until(() => origin.located.length === 1);
    origin.locating = present.promise;
    credentials.set('d', own('t2'));
    locations.renew({ manifest, dataset: 'd' });
    former.resolve();
    await until(() => origin.located.length === 2);
    await settle();
    assert.equal(known(), 0);
    present.resolve();
    await until(() => known() === 1);
    assert.deepEqual(
      [opened, origin.located],
      [
        ['t1', 't2'],
        [[1], [1]],
      ],
    );
  });

  it('are one base when the origin has one, also for an earlier question', async () => {
    origin.originBase = { url: 'https://host/base' };
    ask(1);
    await until(() => engine.bases.get(revisionKey({ manifest, dataset: 'd' }))?.url === 'https://host/base');
    assert.deepEqual(origin.located, []);
  });

  it('are not resolved when the origin has a base', () => {
    origin.originBase = { url: 'https://host/base', headers: { authorization: 'x' } };
    locations.prepare({ manifest, dataset: 'd' });
    assert.equal(engine.bases.get(revisionKey({ manifest, dataset: 'd' }))?.url, 'https://host/base');
  });

  it('close their origins', () => {
    locations.prepare({ manifest, dataset: 'd' });
    locations.forget({ manifest, dataset: 'd' });
    assert.equal(origin.closed, 1);
  });

  it('leave open questions to the next agent at the end, because an answer would fail their readers', async () => {
    const held = Promise.withResolvers<void>();
    origin.locating = held.promise;
    ask(1);
    await until(() => origin.located.length === 1); // 1 is looked up
    ask(2); // and 2 waits for others
    locations.close();
    ask(3);
    held.resolve();
    await elapse(150, 'answers would come');
    assert.deepEqual(engine.failedLocations, []);
    assert.equal(known(), 0);
    assert.deepEqual([opened.length, origin.closed], [1, 1]);
  });
});
