import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { HearthError } from '@hearth/common';
import { until } from '@hearth/common/testing';
import { TestCluster } from '../testing/cluster.ts';
import { directorySource, fileRow } from '../testing/fake_origin.ts';
import { VolumeMounts } from './volume_mounts.ts';

const soon = () => AbortSignal.timeout(300_000);

describe('volume mounts', () => {
  let cluster: TestCluster;
  beforeEach(async () => {
    cluster = await TestCluster.start(['a', 'b'], [fileRow('x', 5n)]);
  });
  afterEach(async () => cluster.close());

  async function add(name = 'd'): Promise<string> {
    const request = { source: directorySource, include: [], exclude: [] };
    return (await cluster.agent('a').resolution.add(name, request, () => {}, soon())).dataset.manifest;
  }
  const publish = (manifest = '', dataset = 'd', node = 'a', mapsIds = false) =>
    cluster.agent(node).volumeMounts.publish({ dataset, manifest, mapsIds }, soon());
  const published = (node = 'a') => join(cluster.volumesOf(node), 'published');
  async function record(id: string, manifest: string, node = 'a', more = {}): Promise<void> {
    await mkdir(published(node), { recursive: true });
    const text = JSON.stringify({
      id,
      volume: `v-${id}`,
      target: `/t/${id}`,
      dataset: 'd',
      manifest,
      dataPath: 'fuse',
      ...more,
    });
    await writeFile(join(published(node), `${id}.json`), text);
  }
  const scan = () => cluster.agent('a').volumeMounts.scan();
  /** Advances past the first read of all records, and then past the grace of unnamed mounts. */
  async function grace(): Promise<void> {
    await scan();
    await cluster.clock.advance(cluster.timings.unnamedMountMs);
    await scan();
  }
  const unrecord = (id: string) => rm(join(published(), `${id}.json`));
  const targets = (node = 'a') => [...(cluster.disks.get(node)?.mounts.keys() ?? [])];
  function complete(node = 'a'): void {
    const engine = cluster.engine(node);
    engine.disk.viewsPossible = true;
    const row = fileRow('x', 5n);
    engine.addResident(row.contentKey ?? '', 5n);
  }

  it('are FUSE while bytes are missing, else a view, shared by all volumes of a revision', async () => {
    const manifest = await add();
    const first = await publish();
    assert.deepEqual(first, {
      path: join(cluster.volumesOf('a'), 'mounts', manifest, 'fuse-d'),
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
    const { disk } = cluster.engine('a');
    disk.bytesInMemory = 5n;
    const memory = await publish();
    assert.deepEqual(
      [memory.path, memory.dataPath, memory.reason],
      [
        join(cluster.volumesOf('a'), 'mounts', manifest, 'fuse-d'),
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
    assert.deepEqual(targets(), [join(cluster.volumesOf('a'), 'mounts', manifest, 'view')]);
  });

  it('are FUSE for a container runtime that maps ids, also where pods of this node read the view', async () => {
    const manifest = await add();
    complete();
    const view = await publish();
    const { path, dataPath, reason } = await publish('', 'd', 'a', true);
    assert.deepEqual([path, dataPath], [join(cluster.volumesOf('a'), 'mounts', manifest, 'fuse-d'), 'fuse']);
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
    cluster.engine('a').disk.viewsPossible = false;
    const { dataPath, reason } = await publish();
    assert.deepEqual([dataPath, reason], ['fuse', 'the fake engine makes no view of this']);
  });

  it('show a dataset whose origin has changed only where it is complete', async () => {
    const manifest = await add();
    await publish('', 'd', 'b');
    const message = 'other ETag';
    await cluster.agent('a').keeper.originChanged({ kind: 'originChanged', manifest, dataset: 'd', entry: 1, message });
    await until(() => cluster.agent('a').datasets.mirror.get('d')?.state === 'Failed');
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
    await cluster.clock.advance(cluster.timings.unnamedMountMs - 10_000);
    await scan();
    assert.deepEqual(targets(), [path], 'not before the grace');
    await cluster.clock.advance(10_000);
    await scan();
    assert.deepEqual(await readdir(join(cluster.volumesOf('a'), 'mounts')), []);
    assert.deepEqual(targets(), []);
    await until(async () => (await cluster.agent('a').mounts.of('d')).length === 0);
  });

  it('are removed after the grace without a record, unless published again', async () => {
    await add();
    await publish();
    for (let round = 0; round < 4; round++) {
      await cluster.clock.advance((cluster.timings.unnamedMountMs * 3) / 4);
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
    cluster.origin.rows = [fileRow('y', 6n)];
    await add('e');
    await publish('', 'e');
    await cluster.remove('a');
    assert.deepEqual(targets(), [join(cluster.volumesOf('a'), 'mounts', used, 'fuse-d')]);
  });

  it('are removed with their dataset, except those in use, whose users are reported', async () => {
    const manifest = await add();
    await Promise.all([publish(), publish('', 'd', 'b')]);
    const pod = { namespace: 'team', name: 'reader', uid: 'u' };
    await record('1', manifest, 'b', { pod });
    await record('2', manifest, 'b');
    const remove = () => cluster.agent('a').removal.remove('d', { evict: false }, soon());
    await assert.rejects(remove(), {
      code: 'InUse',
      message: /^dataset d is mounted on b by (pod team\/reader, volume v-2|volume v-2, pod team\/reader); unmount it/,
    });
    assert.deepEqual([targets('a'), targets('b').length], [[], 1]);
    for (const id of ['1', '2']) await rm(join(published('b'), `${id}.json`));
    await remove();
    assert.deepEqual(targets('b'), []);
    assert.deepEqual(await readdir(join(cluster.volumesOf('b'), 'mounts')), []);
  });

  it('used by another dataset of the same files do not block the removal of the first one', async () => {
    const manifest = await add();
    await add('e');
    complete();
    await publish();
    await record('1', manifest, 'a', { dataset: 'e', dataPath: 'view' });
    const { removal } = cluster.agent('b');
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
      [own.path, other.path].map((path) => cluster.disks.get('a')?.mounts.get(path)?.source),
      ['hearth:d', 'hearth:e'],
    );
    await record('1', manifest, 'a', { dataset: 'e' });
    await cluster.agent('b').removal.remove('d', { evict: false }, soon());
    assert.deepEqual(targets(), [other.path]);
  });

  it('of an earlier version, shared by datasets of the same files, stay while a record names one', async () => {
    const manifest = await add();
    const path = join(cluster.volumesOf('a'), 'mounts', manifest, 'fuse');
    await mkdir(path, { recursive: true });
    const mount = { dataset: 'd', manifest, target: path, dataPath: 'fuse' as const };
    await cluster.agent('a').mounts.mountRevision(mount, soon());
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
    await assert.rejects(cluster.agent('b').removal.remove('d', { evict: false }, soon()), {
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
    cluster.engine('a').busy = true;
    await grace();
    assert.equal(targets().length, 1);
    cluster.engine('a').busy = false;
    await scan();
    assert.equal(targets().length, 0);
  });

  it('show former revisions on request, but none of other datasets', async () => {
    const old = await add();
    await add('other');
    cluster.origin.rows = [fileRow('y', 6n)];
    const present = await add();
    assert.equal((await publish(old)).manifest, old);
    assert.equal((await publish()).manifest, present);
    await assert.rejects(publish(present, 'other'), { code: 'NotFound', message: /no longer has a revision/ });
    await assert.rejects(publish('main'), { code: 'InvalidArgument' });
    await assert.rejects(publish('', 'none'), { code: 'NotFound', message: /agents do not know/ });
  });

  it('of a dataset whose listing failed are refused with the reason alone', async () => {
    cluster.origin.listError = new HearthError('Unauthenticated', 'the origin refused the token');
    await assert.rejects(add('gated'));
    await assert.rejects(publish('', 'gated'), { code: 'Unauthenticated', message: 'the origin refused the token' });
  });

  it('are taken over with their revision after a restart, even with an emptied store', async () => {
    const manifest = await add();
    const { path } = await publish();
    await record('1', manifest);
    await cluster.remove('a', 'crash');
    await cluster.store('b').transact({ compare: [], success: [{ kind: 'deletePrefix', prefix: '' }] });
    await cluster.add('a');
    await grace();
    assert.deepEqual(targets(), [path]);
    const [mount] = await cluster.agent('b').mounts.of('d');
    assert.deepEqual([mount?.target, mount?.manifest], [path, manifest]);
    assert.ok(cluster.disks.get('a')?.manifests.has(manifest));
  });

  it('are made again when pods read a view whose holder removed the mount, so that nothing is evicted', async () => {
    const manifest = await add();
    complete();
    const { path } = await publish();
    await record('1', manifest, 'a', { dataPath: 'view' });
    await cluster.remove('a');
    cluster.disks.get('a')?.mounts.clear();
    await cluster.add('a');
    await until(() => targets().includes(path));
    const [mount] = await cluster.agent('b').mounts.of('d');
    assert.deepEqual([mount?.target, mount?.manifest], [path, manifest]);
  });

  it('by FUSE are made again after a loss of their holder, with retries', async () => {
    const manifest = await add();
    const { path } = await publish();
    await record('1', manifest);
    await cluster.remove('a', 'crash');
    cluster.disks.get('a')?.mounts.clear();
    await cluster.add('a');
    await until(() => targets().includes(path));
    await until(async () => (await cluster.agent('b').mounts.of('d')).length === 1);
    cluster.disks.get('a')?.mounts.clear();
    const lost = () =>
      cluster
        .agent('a')
        .volumeMounts.capabilities()
        .find(({ name }) => name === 'lost-volumes');
    await cluster.agent('a').mounts.ended(path, 'the test ends it');
    await scan();
    assert.match(lost()?.reason ?? '', /^volume v-1 cannot read/);
    await until(() => targets().includes(path));
    await until(async () => {
      await scan();
      return lost() === undefined;
    });
  });

  it('close the folder of the sockets, which the kubelet creates world-readable', async () => {
    const folder = join(cluster.volumesOf('a'), 'run');
    await mkdir(folder, { mode: 0o755 });
    await cluster.remove('a');
    await cluster.add('a');
    assert.equal((await stat(folder)).mode & 0o777, 0o700);
  });

  it('replace the remains of a dead holder, and remove them when no pod needs them', async function () {
    const manifest = await add();
    const target = join(cluster.volumesOf('a'), 'mounts', manifest, 'fuse-d');
    await mkdir(target, { recursive: true });
    try {
      execFileSync('mount', ['-t', 'tmpfs', 'hearth-test', target], { stdio: 'pipe' });
    } catch (thrown) {
      console.log(`      skipped: mounts cannot be made here (${(thrown as Error).message.trim()})`);
      this.skip();
    }
    const mounts = () => readFileSync('/proc/self/mountinfo', 'utf8').includes(target);
    assert.equal((await publish()).path, target);
    assert.equal(mounts(), false);
    execFileSync('mount', ['-t', 'tmpfs', 'hearth-test', target], { stdio: 'pipe' });
    cluster.disks.get('a')?.mounts.clear();
    await grace();
    assert.ok(!mounts() && !existsSync(target));
    await until(async () => (await cluster.agent('a').mounts.of('d')).length === 0);
  });

  it('keep the manifests of published revisions, and fetch missing ones', async () => {
    const manifest = await add();
    await record('1', manifest, 'b', { dataPath: 'view' });
    await until(() => cluster.disks.get('b')?.manifests.has(manifest) ?? false);
    await cluster.agent('b').volumeMounts.scan();
    await cluster.agent('a').removal.remove('d', { evict: false }, soon());
    await until(() => cluster.disks.get('a')?.manifests.has(manifest) === false);
    assert.ok(cluster.disks.get('b')?.manifests.has(manifest));
    await record('2', manifest, 'a', { dataPath: 'view' });
    await until(() => cluster.disks.get('a')?.manifests.has(manifest) ?? false);
    for (const node of ['a', 'b']) await rm(published(node), { recursive: true });
    for (const node of ['a', 'b']) await mkdir(published(node));
    await until(() => cluster.disks.get('b')?.manifests.has(manifest) === false);
  });

  it('and volumes keep former revisions of a frequently changing dataset', async () => {
    const mounted = await add();
    await publish();
    await record('1', mounted);
    cluster.origin.rows = [fileRow('pinned', 1n)];
    const pinned = await add();
    await cluster.agent('a').volumes.create({ name: 'v', dataset: 'd', capacityBytes: 1n, manifest: pinned });
    for (let revision = 0; revision < 12; revision++) {
      cluster.origin.rows = [fileRow(`${revision}`, 1n)];
      await add();
    }
    const kept = cluster
      .agent('a')
      .datasets.revisionsOf('d')
      .map((one) => one.manifest);
    assert.equal(kept.length, 12);
    assert.ok(kept.includes(mounted) && kept.includes(pinned));
  });

  it('are refused by an agent without a volume folder', async () => {
    await add();
    const { context, datasets, keeper, mounts } = cluster.agent('a');
    const none = new VolumeMounts(context, { tables: datasets, keeper, mounts }, undefined);
    await none.start();
    await assert.rejects(none.publish({ dataset: 'd', manifest: '', mapsIds: false }, soon()), {
      code: 'Unsupported',
      message: /volumes\.directory/,
    });
    await none.close();
  });
});
