import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { until } from '@hearth/common/testing';
import { useVolumes } from './testing/volumes_fixture.ts';

const limits = { kind: 'scratch', maxBytes: 0n, maxFiles: 0n };

describe('mounts of writable volumes for pods', () => {
  const { cluster, publish, record, scan, grace, targets } = useVolumes();
  const create = async (name = 'kv') => {
    const { writableVolumes, context } = cluster().agent('b');
    return (await writableVolumes.create({ name, ...limits }, context)).id;
  };
  const publishVolume = (node = 'a') => publish('', 'volume:kv', node);
  const recordVolume = (id: string, manifest: string) => record(id, manifest, 'a', { dataset: 'volume:kv' });

  it('are one FUSE mount for all pods of a node, kept while a record names the volume', async () => {
    const id = await create();
    const path = join(cluster().volumesOf('a'), 'mounts', id, 'fuse-volume:kv');
    assert.deepEqual(await publishVolume(), { path, manifest: id, dataPath: 'fuse', reason: '', bytes: 0n, files: 0 });
    assert.equal((await publishVolume()).path, path);
    await publishVolume('b');
    const mounts = await cluster().agent('b').mounts.of('volume:kv');
    assert.deepEqual(mounts.map(({ node, volume }) => [node, volume]).sort(), [
      ['a', id],
      ['b', id],
    ]);
    await recordVolume('1', id);
    await grace();
    assert.deepEqual(targets(), [path]);
    await rm(join(cluster().volumesOf('a'), 'published', '1.json'));
    await grace();
    assert.deepEqual(targets(), []);
  });

  it('are refused for a volume that there is not', async () => {
    await assert.rejects(publishVolume(), { code: 'NotFound', message: /no volume kv/ });
  });

  it('are made again after a loss of their holder', async () => {
    const id = await create();
    const { path } = await publishVolume();
    await recordVolume('1', id);
    await cluster().remove('a', 'crash');
    cluster().disks.get('a')?.mounts.clear();
    await cluster().add('a');
    await until(() => targets().includes(path));
    assert.equal((await cluster().agent('b').mounts.of('volume:kv'))[0]?.volume, id);
  });

  it('are recorded again when the store lost its data', async () => {
    const id = await create();
    const { path } = await publishVolume();
    await recordVolume('1', id);
    await cluster().remove('a', 'crash');
    const prefix = 'mounts/';
    await cluster()
      .store('b')
      .transact({ compare: [], success: [{ kind: 'deletePrefix', prefix }] });
    await cluster().add('a');
    await scan();
    assert.deepEqual(targets(), [path]);
    assert.equal((await cluster().agent('b').mounts.of('volume:kv'))[0]?.volume, id);
  });

  it('are not made for pods of a deleted volume, whose name another volume has', async () => {
    const id = await create();
    await cluster().agent('b').writableVolumes.delete('kv');
    // The agent may read the record at once, and the volume must be gone by then.
    await recordVolume('1', id);
    await create();
    await publishVolume();
    await cluster().clock.advance(cluster().timings.publishedScanMs);
    await scan();
    assert.deepEqual(
      targets().filter((path) => path.includes(id)),
      [],
    );
    const [lost] = cluster().agent('a').volumeMounts.capabilities().slice(1);
    assert.equal(lost?.name, 'lost-volumes');
  });
});
