import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { silentLogger } from '@hearth/common';
import { TemporaryFolder } from '@hearth/common/testing';
import { reconcileRecords, recordId } from '../records/index.ts';
import { FakeMounts } from '../testing/fake_mounts.ts';
import { manifest } from '../testing/samples.ts';
import { type PublishedRecord, PublishedRecords } from './published_records.ts';

function recordOf(target: string): PublishedRecord {
  return {
    id: recordId(target),
    volume: 'pvc-1',
    target,
    dataset: 'team.model',
    manifest: manifest('a'),
    dataPath: 'view',
    bytes: 9_223_372_036_854_775_807n,
    files: 3n,
    pod: { namespace: 'team', name: 'p', uid: 'u' },
    publishedAt: '2026-11-21T00:00:00.000Z',
  };
}

describe('PublishedRecords', () => {
  let folder: TemporaryFolder;
  let records: PublishedRecords;
  beforeEach(() => {
    folder = new TemporaryFolder('csi');
    records = new PublishedRecords(folder.path, silentLogger);
  });
  afterEach(() => folder.remove());

  it('names a record by the SHA-256 of its target', () => {
    assert.equal(recordId('/a'), createHash('sha256').update('/a').digest('hex').slice(0, 32));
    assert.notEqual(recordId('/a'), recordId('/b'));
  });

  it('gives back what was written, whatever the target is called and however large the dataset', async () => {
    for (const target of ['/plain', `/${'x'.repeat(3000)}`, '/with blank/and "quotes"/\n/ü/\\/😀']) {
      await records.write('c', recordOf(target));
      assert.deepEqual(await records.find(target), recordOf(target));
    }
    assert.equal((await records.all()).length, 3);
  });

  it('writes files that only their owner reads, with the fields that agents look for', async () => {
    await records.write('c', recordOf('/t'));
    const path = folder.file('c/published', `${recordId('/t')}.json`);
    assert.equal(statSync(path).mode & 0o777, 0o600);
    const written = JSON.parse(readFileSync(path, 'utf8'));
    assert.equal(written.dataset, 'team.model');
    assert.equal(written.manifest, manifest('a'));
    assert.deepEqual(readdirSync(folder.file('c/published')), [`${recordId('/t')}.json`]);
  });

  it('overwrites, and removes from every cluster', async () => {
    await records.write('c', recordOf('/t'));
    await records.write('c', { ...recordOf('/t'), manifest: manifest('b') });
    assert.equal((await records.find('/t'))?.manifest, manifest('b'));
    await records.write('d', recordOf('/t'));
    await records.remove('/t');
    await records.remove('/t');
    assert.deepEqual(await records.all(), []);
  });

  it('takes for no record what is damaged, or lies under a name that is not its own', async () => {
    await records.write('c', recordOf('/t'));
    const path = folder.file('c/published', `${recordId('/t')}.json`);
    for (const text of ['', '{', '[]', JSON.stringify({ ...JSON.parse(readFileSync(path, 'utf8')), target: '/u' })]) {
      writeFileSync(path, text);
      assert.equal(await records.find('/t'), undefined);
      assert.deepEqual(await records.all(), [{ cluster: 'c', id: recordId('/t'), record: undefined }]);
    }
  });

  it('lives with files among the folders of clusters, and without the folder', async () => {
    writeFileSync(folder.file('stray'), '');
    assert.deepEqual(await records.all(), []);
    await records.remove('/t');
    assert.deepEqual(await new PublishedRecords(folder.file('absent'), silentLogger).all(), []);
  });

  it('is reconciled with what is mounted, damaged records and leftovers of writing included', async () => {
    const mounts = new FakeMounts();
    for (const target of ['/mounted', '/gone', '/damaged-mounted', '/damaged']) {
      await records.write('c', recordOf(target));
      if (target.startsWith('/damaged')) writeFileSync(folder.file('c/published', `${recordId(target)}.json`), '{');
    }
    mounts.add('/mounted', '8:1');
    mounts.add('/damaged-mounted', '8:1');
    writeFileSync(folder.file('c/published/.0123.partial'), '{');
    mkdirSync(folder.file('empty'));
    assert.deepEqual(await reconcileRecords(records, mounts, silentLogger), { kept: 2, removed: 2 });
    const left = ['/mounted', '/damaged-mounted'].map((target) => `${recordId(target)}.json`);
    assert.deepEqual(readdirSync(folder.file('c/published')).sort(), left.sort());
  });
});
