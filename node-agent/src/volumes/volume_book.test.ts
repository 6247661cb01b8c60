import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openStore, type Store } from '../store/index.ts';
import { VolumeBook } from './volume_book.ts';

const volume = { name: 'pvc-1', dataset: 'team.llama', capacityBytes: 1n << 60n, manifest: '' };

describe('volume book', () => {
  let folder: string;
  let store: Store;
  let book: VolumeBook;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'hearth-volumes-'));
    store = await openStore(`sqlite:${join(folder, 'store.sqlite')}`);
    book = new VolumeBook(store);
  });
  afterEach(async () => {
    await store.close();
    await rm(folder, { recursive: true });
  });

  it('gives the same record for the same volume, and refuses its name to others', async () => {
    assert.deepEqual(await book.create(volume), volume);
    assert.deepEqual(await book.create(volume), volume);
    for (const other of [
      { ...volume, capacityBytes: 5n },
      { ...volume, dataset: 'team.other' },
      { ...volume, manifest: 'a'.repeat(64) },
    ]) {
      await assert.rejects(book.create(other), { code: 'AlreadyExists', message: /was made for dataset team\.llama/ });
    }
    assert.deepEqual(await book.get('pvc-1'), volume);
  });

  it('lists by name, and forgets without complaint', async () => {
    for (const name of ['b', 'a', 'B', 'c']) await book.create({ ...volume, name });
    await book.delete('c');
    await book.delete('c');
    assert.deepEqual(
      (await book.list()).map((one) => one.name),
      ['B', 'a', 'b'],
    );
    await assert.rejects(book.get('c'), { code: 'NotFound', message: /no volume c/ });
  });

  it('makes one of many that are created at the same time', async () => {
    const sizes = await Promise.allSettled(
      Array.from({ length: 8 }, (_, index) => book.create({ ...volume, capacityBytes: BigInt(index) })),
    );
    assert.equal(sizes.filter((one) => one.status === 'fulfilled').length, 1);
  });

  it('refuses names and revisions that cannot be kept, and does not take a broken record for none', async () => {
    await assert.rejects(book.create({ ...volume, name: '../x' }), { code: 'InvalidArgument' });
    await assert.rejects(book.create({ ...volume, manifest: 'main' }), { code: 'InvalidArgument' });
    await store.put('volumes/broken', '{}');
    await assert.rejects(book.list(), { code: 'Corrupt' });
  });
});
