import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openStore, type Store } from '../store/index.ts';
import { VolumeRegistry } from './volume_registry.ts';

const volume = { name: 'pvc-1', dataset: 'team.llama', capacityBytes: 1n << 60n, manifest: '' };

describe('volume registry', () => {
  let folder: string;
  let store: Store;
  let registry: VolumeRegistry;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'hearth-volumes-'));
    store = await openStore(`sqlite:${join(folder, 'store.sqlite')}`);
    registry = new VolumeRegistry(store);
  });
  afterEach(async () => {
    await store.close();
    await rm(folder, { recursive: true });
  });

  it('is idempotent for an equal volume, and refuses the name to other volumes', async () => {
    assert.deepEqual(await registry.create(volume), volume);
    assert.deepEqual(await registry.create(volume), volume);
    for (const other of [
      { ...volume, capacityBytes: 5n },
      { ...volume, dataset: 'team.other' },
      { ...volume, manifest: 'a'.repeat(64) },
    ]) {
      await assert.rejects(registry.create(other), {
        code: 'AlreadyExists',
        message: /was made for dataset team\.llama/,
      });
    }
    assert.deepEqual(await registry.get('pvc-1'), volume);
  });

  it('lists by name, and ignores deleting a missing volume', async () => {
    for (const name of ['b', 'a', 'B', 'c']) await registry.create({ ...volume, name });
    await registry.delete('c');
    await registry.delete('c');
    assert.deepEqual(
      (await registry.list()).map((one) => one.name),
      ['B', 'a', 'b'],
    );
    await assert.rejects(registry.get('c'), { code: 'NotFound', message: /no volume c/ });
  });

  it('creates one record for many concurrent requests', async () => {
    const sizes = await Promise.allSettled(
      Array.from({ length: 8 }, (_, index) => registry.create({ ...volume, capacityBytes: BigInt(index) })),
    );
    assert.equal(sizes.filter((one) => one.status === 'fulfilled').length, 1);
  });

  it('refuses invalid names and revisions, and does not treat a broken record as missing', async () => {
    await assert.rejects(registry.create({ ...volume, name: '../x' }), { code: 'InvalidArgument' });
    await assert.rejects(registry.create({ ...volume, manifest: 'main' }), { code: 'InvalidArgument' });
    await store.put('volumes/broken', '{}');
    await assert.rejects(registry.list(), { code: 'Corrupt' });
  });
});
