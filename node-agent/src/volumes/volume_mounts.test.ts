import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { HearthError } from '@hearth/common';
import { until } from '@hearth/common/testing';
import { fileRow } from '../testing/fake_origin.ts';
import { useVolumes } from './testing/volumes_fixture.ts';

const soon = () => AbortSignal.timeout(300_000);

describe('volume mounts', () => {
  const { cluster, add, publish, published, record, scan, grace, unrecord, targets, complete } = useVolumes();

  it('are FUSE while bytes are missing, else a view, shared by all volumes of a revision', async () => {
    const manifest = await add();
    const first = await publish();
    assert.deepEqual(first, {
      path: join(cluster().volumesOf('a'), 'mounts', manifest, 'fuse-d'),
      manifest,
      dataPath: 'fuse',
      reason: '1 of 1 files are incomplete on this node',
      bytes: 5n,
      files: 1,
    });
    assert.ok(existsSync(first.path));
    assert.equal((await publish(manifest)).path, first.path);
    complete();
    const [view, again] = await Promise.all([publish(), publish()]);
    assert.deepEqual([view.path, view.dataPath, view.reason], [first.path.replace('fuse-d', 'view'), 'view', '']);
    assert.equal(again.path, view.path);
    assert.equal(targets().length, 2);
  });

  it('are FUSE while some of a complete revision is in memory, unless the kernel has no passthrough', async () => {
    const manifest = await add();
    complete();
    const { disk } = cluster().engine('a');
    disk.bytesInMemory = 5n;
    const memory = await publish();
    assert.deepEqual(
      [memory.path, memory.dataPath, memory.reason],
      [
        join(cluster().volumesOf('a'), 'mounts', manifest, 'fuse-d'),
        'fuse',
        'files of it are in memory, which a view does not read',
      ],
    );
    disk.bytesInMemory = 0n;
    assert.equal((await publish()).dataPath, 'view');
    disk.bytesInMemory = 5n;
    assert.equal((await publish()).path, memory.path, 'also beside a view');
    await grace();
    disk.passthrough = false;
    for (let round = 0; round < 2; ++round) assert.equal((await publish()).dataPath, 'view');
    assert.deepEqual(targets(), [join(cluster().volumesOf('a'), 'mounts', manifest, 'view')]);
  });

  it('are FUSE for a container runtime that maps ids, also where pods of this node read the view', async () => {
    const manifest = await add();
    complete();
    const view = await publish();
    const { path, dataPath, reason } = await publish('', 'd', 'a', true);
    assert.deepEqual([path, dataPath], [join(cluster().volumesOf('a'), 'mounts', manifest, 'fuse-d'), 'fuse']);
    assert.match(reason, /user namespace/);
    assert.equal((await publish('', 'd', 'a', true)).path, path);
    assert.equal((await publish()).path, view.path);
    for (const [id, kind] of [
      ['1', 'fuse'],
      ['2', 'view'],
    ])
      await record(id ?? '', manifest, 'a', { dataPath: kind });
    await grace();
    assert.deepEqual(targets().sort(), [path, view.path].sort());
  });

  it('report why a complete revision is not a view', async () => {
    await add();
    complete();
    cluster().engine('a').disk.viewsPossible = false;
    const { dataPath, reason } = await publish();
    assert.deepEqual([dataPath, reason], ['fuse', 'the fake engine makes no view of this']);
  });

  it('show a dataset whose origin has changed only where it is complete', async () => {
    const manifest = await add();
    await publish('', 'd', 'b');
    const message = 'other ETag';
    await cluster()
      .agent('a')
      .keeper.originChanged({ kind: 'originChanged', manifest, dataset: 'd', entry: 1, message });
    await until(() => cluster().agent('a').datasets.mirror.get('d')?.state === 'Failed');
    await assert.rejects(publish(), { code: 'OriginChanged', message: /no longer has x as it was listed/ });
    complete();
    assert.equal((await publish()).dataPath, 'view');
  });

  it('stay while a record names their revision, and for the grace without one', async () => {
    const manifest = await add();
    const { path } = await publish();
    await record('1', manifest);
    await record('2', manifest);
    await grace();
    await unrecord('1');
    await grace();
    assert.deepEqual(targets(), [path]);
    await unrecord('2');
    await scan();
    await cluster().clock.advance(cluster().timings.unnamedMountMs - 10_000);
    await scan();
    assert.deepEqual(targets(), [path], 'not before the grace');
    await cluster().clock.advance(10_000);
    await scan();
    assert.deepEqual(await readdir(join(cluster().volumesOf('a'), 'mounts')), []);
    assert.deepEqual(targets(), []);
    await until(async () => (await cluster().agent('a').mounts.of('d')).length === 0);
  });

  it('are removed after the grace without a record, unless published again', async () => {
    await add();
    await publish();
    for (let round = 0; round < 4; round++) {
      await cluster().clock.advance((cluster().timings.unnamedMountMs * 3) / 4);
      await scan();
      await publish();
    }
    assert.equal(targets().length, 1);
    await grace();
    assert.equal(targets().length, 0);
  });

  it('are removed at shutdown unless a record names them', async () => {
    const used = await add();
    // Within the grace of the mount.
    await record('1', used);
    await publish();
    cluster().origin.rows = [fileRow('y', 6n)];
    await add('e');
    await publish('', 'e');
    await cluster().remove('a');
    assert.deepEqual(targets(), [join(cluster().volumesOf('a'), 'mounts', used, 'fuse-d')]);
  });

  it('are removed with their dataset, except those in use, whose users are reported', async () => {
    const manifest = await add();
    await Promise.all([publish(), publish('', 'd', 'b')]);
    const pod = { namespace: 'team', name: 'reader', uid: 'u' };
    await record('1', manifest, 'b', { pod });
    await record('2', manifest, 'b');
    const remove = () => cluster().agent('a').removal.remove('d', { evict: false }, soon());
    await assert.rejects(remove(), {
      code: 'InUse',
      message: /^dataset d is mounted on b by (pod team\/reader, volume v-2|volume v-2, pod team\/reader); unmount it/,
    });
    assert.deepEqual([targets('a'), targets('b').length], [[], 1]);
    for (const id of ['1', '2']) await rm(join(published('b'), `${id}.json`));
    await remove();
    assert.deepEqual(targets('b'), []);
    assert.deepEqual(await readdir(join(cluster().volumesOf('b'), 'mounts')), []);
  });

  it('used by another dataset of the same files do not block the removal of the first one', async () => {
    const manifest = await add();
    await add('e');
    complete();
    await publish();
    await record('1', manifest, 'a', { dataset: 'e', dataPath: 'view' });
    const { removal } = cluster().agent('b');
    await removal.remove('d', { evict: false }, soon());
    assert.equal(targets().length, 1);
    await assert.rejects(removal.remove('e', { evict: false }, soon()), { code: 'InUse', message: /by volume v-1/ });
    await unrecord('1');
    await removal.remove('e', { evict: false }, soon());
  });

  it('that read the origin belong to one dataset each, even with equal files', async () => {
    const manifest = await add();
    await add('e');
    const [own, other] = [await publish(), await publish('', 'e')];
    assert.deepEqual(
      [own.path, other.path].map((path) => cluster().disks.get('a')?.mounts.get(path)?.source),
      ['hearth:d', 'hearth:e'],
    );
    await record('1', manifest, 'a', { dataset: 'e' });
    await cluster().agent('b').removal.remove('d', { evict: false }, soon());
    assert.deepEqual(targets(), [other.path]);
  });

  it('of an earlier version, shared by datasets of the same files, stay while a record names one', async () => {
    const manifest = await add();
    const path = join(cluster().volumesOf('a'), 'mounts', manifest, 'fuse');
    await mkdir(path, { recursive: true });
    const mount = { dataset: 'd', manifest, target: path, dataPath: 'fuse' as const };
    await cluster().agent('a').mounts.mountRevision(mount, soon());
    await record('1', manifest, 'a', { dataset: 'e' });
    await grace();
    assert.deepEqual(targets(), [path]);
    await unrecord('1');
    await grace();
    assert.equal(targets().length, 0);
  });

  it('count as in use while their records are unreadable', async () => {
    await add();
    await publish();
    await writeFile(join(published(), 'torn.json'), '{"manifest":');
    await assert.rejects(cluster().agent('b').removal.remove('d', { evict: false }, soon()), {
      code: 'InUse',
      message: /on a, whose agent cannot name the users: .*torn\.json/,
    });
  });

  it('all stay while a record is unreadable', async () => {
    await add();
    await publish();
    await writeFile(join(published(), 'torn.json'), '{"manifest":');
    await grace();
    assert.equal(targets().length, 1);
    await unrecord('torn');
    await grace();
    assert.equal(targets().length, 0);
  });

  it('that are busy are retried', async () => {
    await add();
    await publish();
    cluster().engine('a').busy = true;
    await grace();
    assert.equal(targets().length, 1);
    cluster().engine('a').busy = false;
    await scan();
    assert.equal(targets().length, 0);
  });

  it('show former revisions on request, but none of other datasets', async () => {
    const old = await add();
    await add('other');
    cluster().origin.rows = [fileRow('y', 6n)];
    const present = await add();
    assert.equal((await publish(old)).manifest, old);
    assert.equal((await publish()).manifest, present);
    await assert.rejects(publish(present, 'other'), { code: 'NotFound', message: /no longer has a revision/ });
    await assert.rejects(publish('main'), { code: 'InvalidArgument' });
    await assert.rejects(publish('', 'none'), { code: 'NotFound', message: /agents do not know/ });
  });

  it('of a dataset whose listing failed are refused with the reason alone', async () => {
    cluster().origin.listError = new HearthError('Unauthenticated', 'the origin refused the token');
    await assert.rejects(add('gated'));
    await assert.rejects(publish('', 'gated'), { code: 'Unauthenticated', message: 'the origin refused the token' });
  });
});
