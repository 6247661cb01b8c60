import assert from 'node:assert/strict';
import { HearthError, silentLogger } from '@hearth/common';
import { TestClock, until } from '@hearth/common/testing';
import { CredentialCache } from '../credentials/index.ts';
import { describeSource, parseSource } from '../origins/index.ts';
import { engineOptions, noCredentials, testTimings } from '../testing/cluster.ts';
import { FakeEngine, revisionKey } from '../testing/fake_engine.ts';
import { FakeFabric } from '../testing/fake_fabric.ts';
import { FakeOrigin, fileRow } from '../testing/fake_origin.ts';
import { Locations } from './locations.ts';

const texts = ['s3://models/llama', 's3://copies/llama', 'https://mirror.example/llama/'];

describe('locations of mirrors', () => {
  let engine: FakeEngine;
  let locations: Locations;
  let manifest: string;
  const credentials = new CredentialCache(() => true);
  const origins = new Map<string, FakeOrigin>();
  const opened = new Map<string, string | undefined>();

  beforeEach(async () => {
    engine = new FakeEngine(
      new FakeFabric(),
      engineOptions('a', () => {}),
    );
    const builder = engine.createManifestBuilder({ skipUnusable: false });
    builder.add([fileRow('x', 1n), fileRow('y', 1n)]);
    manifest = (await engine.finishManifest(builder)).digest;
    const [source, ...mirrors] = texts.map(parseSource);
    assert.ok(source);
    const record = {
      dataset: 'd',
      manifest,
      source: { ...source, mirrors: { sources: mirrors, credentialed: [0], sourceHasNone: false } },
      revision: 'r1',
      createdAt: 0,
    };
    for (const text of texts) {
      const origin = new FakeOrigin([]);
      origin.originBase = text.startsWith('s3') ? undefined : { url: text };
      origins.set(text, origin);
    }
    locations = new Locations(
      { engine, logger: silentLogger, clock: new TestClock(), timings: testTimings },
      { revision: () => record, readRevision: async () => record },
      (place, _revision, given) => {
        opened.set(describeSource(place), given?.accessKeyId ?? given?.token);
        const origin = origins.get(describeSource(place));
        if (origin === undefined) throw new HearthError('InvalidArgument', 'no such place');
        return origin;
      },
      credentials,
    );
    const keys = (accessKeyId: string) => ({ ...noCredentials, accessKeyId, secretAccessKey: 's' });
    const [copies] = mirrors;
    credentials.set('d', {
      ...keys('first'),
      mirrors: { mirrors: [{ mirror: copies, credentials: keys('copies') }] },
    });
  });
  afterEach(() => locations.close());

  const of = (source: number) => ({ manifest, dataset: 'd', source });
  const ask = (source: number, ...entries: number[]) =>
    locations.answer({ kind: 'locations', ...of(source), entries, ahead: [] });
  const known = (source: number) => engine.locations.get(revisionKey(of(source)))?.size ?? 0;

  it('use the credentials of each mirror, which no other place gets', () => {
    locations.prepare({ manifest, dataset: 'd' });
    assert.deepEqual(engine.mirrors.get(revisionKey(of(0))), [
      { name: texts[1], sameTags: true },
      { name: texts[2], sameTags: false },
    ]);
    assert.deepEqual(
      [...opened.entries()],
      [
        ['s3://models/llama', 'first'],
        ['s3://copies/llama', 'copies'],
        ['https://mirror.example/llama/', undefined],
      ],
    );
    assert.equal(engine.bases.get(revisionKey(of(2)))?.url, 'https://mirror.example/llama/');
    assert.equal(engine.bases.get(revisionKey(of(0))), undefined);
  });

  it('are requested and fail independently for each source', async () => {
    const copies = origins.get('s3://copies/llama');
    assert.ok(copies);
    copies.locateError = new HearthError('Unauthenticated', 'the key is not known');
    ask(0, 1);
    ask(1, 1, 2);
    await until(() => known(0) === 1 && engine.failedLocations.length === 1);
    assert.deepEqual(engine.failedLocations[0], {
      ...of(1),
      entries: [1, 2],
      error: { code: 'Unauthenticated', message: 'dataset d: the key is not known' },
    });
    ask(7, 1);
    await until(() => engine.failedLocations.length === 2);
    assert.match(engine.failedLocations[1]?.error.message ?? '', /no longer has a mirror 7/);
  });

  it('leave the source alone when a mirror cannot be opened', async () => {
    origins.delete('s3://copies/llama');
    locations.prepare({ manifest, dataset: 'd' });
    assert.ok(engine.bases.has(revisionKey(of(2))));
    ask(0, 1);
    await until(() => known(0) === 1);
  });

  it('are available although the first source cannot be opened', async () => {
    origins.delete('s3://models/llama');
    assert.throws(() => locations.prepare({ manifest, dataset: 'd' }), { message: 'no such place' });
    assert.equal(engine.mirrors.get(revisionKey(of(0)))?.length, 2);
    assert.ok(engine.bases.has(revisionKey(of(2))));
    ask(1, 1);
    await until(() => known(1) === 1);
  });

  it('of files missing at a source fail alone, after one request', async () => {
    for (const source of [0, 1]) {
      const origin = origins.get(texts[source] ?? '');
      assert.ok(origin);
      origin.lacking.add('x');
      ask(source, 1, 2);
      await until(() => known(source) === 1 && engine.failedLocations.length === source + 1);
      const { entries, error } = engine.failedLocations[source] ?? {};
      assert.deepEqual([entries, error?.code], [[1], 'NotFound']);
      assert.deepEqual(origin.located, [[1, 2]]);
    }
  });

  it('of a source that is gone fail together, after one request', async () => {
    const copies = origins.get('s3://copies/llama');
    assert.ok(copies);
    copies.locateError = new HearthError('NotFound', 'there is no such repository');
    ask(1, 1, 2);
    await until(() => engine.failedLocations.length > 0);
    assert.deepEqual(engine.failedLocations[0]?.entries, [1, 2]);
    assert.match(engine.failedLocations[0]?.error.message ?? '', /no such repository/);
    assert.deepEqual(copies.located, [[1, 2]]);
  });

  it("use no other identity when a mirror's credentials cannot be read", async () => {
    const mirror = parseSource(texts[1] ?? '');
    credentials.set('d', { ...noCredentials, token: 't', mirrors: { mirrors: [{ mirror, credentials: undefined }] } });
    opened.clear();
    ask(1, 1);
    await until(() => engine.failedLocations.length === 1);
    assert.match(engine.failedLocations[0]?.error.message ?? '', /Secret cannot be used/);
    assert.equal(opened.has(texts[1] ?? ''), false);
  });

  it('are resolved again for each source with new credentials', async () => {
    ask(0, 1);
    ask(1, 1);
    await until(() => known(0) === 1 && known(1) === 1);
    locations.renew({ manifest, dataset: 'd' });
    assert.deepEqual([known(0), known(1)], [0, 0]);
    assert.equal(origins.get('s3://copies/llama')?.closed, 1);
    assert.deepEqual(locations.datasetsWith(manifest), ['d']);
  });
});
