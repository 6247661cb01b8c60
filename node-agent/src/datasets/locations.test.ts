import assert from 'node:assert/strict';
import { HearthError, silentLogger } from '@hearth/common';
import { CredentialBook } from '../credentials/index.ts';
import { engineOptions, testPace } from '../testing/cluster.ts';
import { FakeEngine } from '../testing/fake_engine.ts';
import { FakeFabric } from '../testing/fake_fabric.ts';
import { directorySource, FakeOrigin, fileRow } from '../testing/fake_origin.ts';
import { until } from '../testing/until.ts';
import { Locations } from './locations.ts';

describe('locations', () => {
  let engine: FakeEngine;
  let origin: FakeOrigin;
  let locations: Locations;
  let manifest: string;
  let credentials: CredentialBook;
  let credentialed = false;
  const opened: (string | undefined)[] = [];
  beforeEach(async () => {
    engine = new FakeEngine(
      new FakeFabric(),
      engineOptions('a', () => {}),
    );
    origin = new FakeOrigin([]);
    origin.originBase = undefined;
    credentialed = false;
    opened.length = 0;
    credentials = new CredentialBook(() => credentialed);
    const builder = engine.createManifestBuilder({ skipUnusable: false });
    builder.add(Array.from({ length: 600 }, (_, index) => fileRow(`f${String(index).padStart(4, '0')}`, 1n)));
    manifest = (await engine.finishManifest(builder)).digest;
    const revision = { dataset: 'd', manifest, source: directorySource, revision: 'r1', createdAt: 0 };
    locations = new Locations(
      { engine, logger: silentLogger, pace: { ...testPace, requestMs: 400 } },
      (digest) => (digest === manifest ? revision : undefined),
      (_source, _revision, given) => {
        opened.push(given?.token);
        return origin;
      },
      credentials,
    );
  });
  afterEach(() => locations.close());

  const ask = (...entries: number[]) => locations.answer({ kind: 'locations', manifest, entries });
  const known = () => engine.locations.get(manifest)?.size ?? 0;

  const own = (token: string) => ({ token, accessKeyId: '', secretAccessKey: '', sessionToken: '' });

  it('wait for credentials that are not here yet, and never use others in their place', async () => {
    credentialed = true;
    ask(1);
    locations.prepare(manifest);
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.deepEqual(opened, []);
    credentials.set('d', own('t1'));
    await until(() => known() === 1);
    assert.deepEqual(opened, ['t1']);
    credentials.forget('d');
    locations.renew(manifest);
    ask(2);
    await until(() => engine.failedLocations.length === 1);
    assert.equal(engine.failedLocations[0]?.error.code, 'Unavailable');
    assert.match(engine.failedLocations[0]?.error.message ?? '', /credentials of dataset d are not here/);
  });

  it('are resolved anew with other credentials, those asked for too', async () => {
    credentials.set('d', own('t1'));
    ask(1);
    await until(() => known() === 1);
    origin.locateMs = 20;
    ask(2);
    credentials.set('d', own('t2'));
    locations.renew(manifest);
    await until(() => known() === 2);
    assert.deepEqual(opened, ['t1', 't2']);
    assert.equal(engine.failedLocations.length, 0);
    assert.equal(origin.closed, 1);
  });

  it('are resolved in batches, each entry by one request at a time', async () => {
    origin.locateMs = 30;
    ask(1, 2);
    ask(2, 3);
    await until(() => origin.located.length === 1);
    ask(1, 2, 3, 4);
    await until(() => known() === 4);
    assert.deepEqual(origin.located, [[1, 2, 3], [4]]);
    ask(...Array.from({ length: 596 }, (_, index) => index + 5));
    await until(() => known() === 600);
    assert.deepEqual(
      origin.located.slice(2).map((batch) => batch.length),
      [256, 256, 84],
    );
  });

  it('are resolved anew when the engine asks again soon: the origin refused them', async () => {
    ask(1);
    await until(() => known() === 1);
    ask(1);
    await until(() => origin.located.length === 2);
  });

  it('fail with the reason, and can be asked for again', async () => {
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

  it('fail for manifests and entries that are not known', async () => {
    locations.answer({ kind: 'locations', manifest: 'other', entries: [1] });
    assert.equal(engine.failedLocations[0]?.error.code, 'NotFound');
    ask(9999);
    await until(() => engine.failedLocations.length === 2);
    assert.equal(engine.failedLocations[1]?.error.code, 'InvalidArgument');
  });

  it('are not asked for when the origin has a base', () => {
    origin.originBase = { url: 'https://host/base', headers: { authorization: 'x' } };
    locations.prepare(manifest);
    assert.equal(engine.bases.get(manifest)?.url, 'https://host/base');
  });

  it('close their origins', () => {
    locations.prepare(manifest);
    locations.forget(manifest);
    assert.equal(origin.closed, 1);
  });

  it('leave what is asked at the end to the next agent, whose readers would fail by an answer', async () => {
    origin.locateMs = 50;
    ask(1);
    await until(() => origin.located.length === 1); // 1 is looked up
    ask(2); // and 2 waits for others
    locations.close();
    ask(3);
    await new Promise((resolve) => setTimeout(resolve, 150));
    assert.deepEqual(engine.failedLocations, []);
    assert.equal(known(), 0);
    assert.deepEqual([opened.length, origin.closed], [1, 1]);
  });
});
