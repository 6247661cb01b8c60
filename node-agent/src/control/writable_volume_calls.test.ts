import assert from 'node:assert/strict';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { until } from '@hearth/common/testing';
import { failsWith, TestControl } from './testing/test_control.ts';

const request = { name: 'kv', kind: '', maxBytes: 10n << 30n, maxFiles: 5n, deadlineMs: 60_000n };

describe('control API for writable volumes', () => {
  let control: TestControl;
  let call: TestControl['call'];
  beforeEach(async () => {
    control = await TestControl.start();
    call = control.call;
  });
  afterEach(() => control.close());

  const ready = () => until(async () => (await call('getWritableVolume', { name: 'kv' })).state === 'Ready');

  it('creates, shows, lists and deletes them', async () => {
    const created = await call('createWritableVolume', request);
    const { kind, maxFiles, deadlineMs, logNode } = created;
    assert.deepEqual([kind, maxFiles, deadlineMs, logNode], ['scratch', 5n, 60_000n, 'a']);
    assert.equal((await call('createWritableVolume', request)).id, created.id);
    await ready();
    const { cluster } = control;
    cluster
      .engine('a')
      .volumeFigures.set(created.id, { bytes: 7n, inodes: 2n, evictedFiles: 5n, evictedYoungFiles: 1n });
    cluster.engine('b').volumeFigures.set(created.id, { sessions: 3, sessionBytes: 9n });
    const shown = await until(async () => {
      const volume = await call('getWritableVolume', { name: 'kv' });
      return volume.usedBytes === 7n && volume.nodes.length > 0 ? volume : false;
    });
    assert.deepEqual([shown.leader, shown.epoch, shown.files], ['a', 1n, 2n]);
    assert.deepEqual([shown.evictedFiles, shown.evictedYoungFiles], [5n, 1n]);
    assert.deepEqual(shown.nodes, [{ node: 'b', sessions: 3, sessionBytes: 9n }]);
    assert.deepEqual((await call('listWritableVolumes', {})).volumes, [shown]);
    assert.deepEqual((await call('getStatus', {})).volumes, [shown]);
    await call('deleteWritableVolume', { name: 'kv', force: false });
    await assert.rejects(call('getWritableVolume', { name: 'kv' }), failsWith('NotFound', /no volume kv/));
    assert.deepEqual((await call('listWritableVolumes', {})).volumes, []);
  });

  it('names the reason of a leader that cannot write', async () => {
    const { id } = await call('createWritableVolume', request);
    await ready();
    control.cluster.engine('a').volumeFigures.set(id, { error: 'No space left on device' });
    await until(async () => (await call('getWritableVolume', { name: 'kv' })).message === 'No space left on device');
  });

  it('mounts them, and refuses to delete them under their mounts', async () => {
    await assert.rejects(
      call('mount', { dataset: 'volume:kv', target: '/mnt/kv', dataPath: '' }),
      failsWith('NotFound', /no volume kv/),
    );
    await control.cluster
      .agent('b')
      .writableVolumes.create({ ...request, kind: 'scratch', deadlineMs: 60_000 }, control.cluster.agent('b').context);
    const mount = await call('mount', { dataset: 'volume:kv', target: '/mnt/kv', dataPath: 'auto' });
    assert.deepEqual([mount.dataset, mount.manifest, mount.dataPath], ['volume:kv', '', 'fuse']);
    await assert.rejects(
      call('mount', { dataset: 'volume:kv', target: '/mnt/x', dataPath: 'view' }),
      failsWith('InvalidArgument', /no data path view/),
    );
    await assert.rejects(
      call('deleteWritableVolume', { name: 'kv', force: false }),
      failsWith('InUse', /mounted on a at \/mnt\/kv; unmount it/),
    );
    await call('deleteWritableVolume', { name: 'kv', force: true });
    await until(() => control.cluster.engine('a').volumes.size === 0);
  });

  it('deletes them once pods no longer use what was published for them, without waiting for its end', async () => {
    const { id } = await call('createWritableVolume', request);
    const published = { dataset: 'volume:kv', manifest: '', mapsIds: false };
    const { path, manifest } = await call('publishVolume', published);
    assert.equal(manifest, id);
    const record = join(control.cluster.volumesOf('a'), 'published', '1.json');
    await writeFile(record, JSON.stringify({ dataset: 'volume:kv', manifest, volume: 'pvc-1' }));
    await assert.rejects(
      call('deleteWritableVolume', { name: 'kv', force: false }),
      failsWith('InUse', new RegExp(path)),
    );
    await rm(record);
    await call('deleteWritableVolume', { name: 'kv', force: false });
    assert.equal(control.cluster.disks.get('a')?.mounts.size, 0);
  });
});
