import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { until } from '@hearth/common/testing';
import { fileRow } from '../testing/fake_origin.ts';
import { useVolumes } from './testing/volumes_fixture.ts';
import { VolumeMounts } from './volume_mounts.ts';

const soon = () => AbortSignal.timeout(300_000);

describe('volume mounts after a restart or a loss', () => {
  const { cluster, add, publish, published, record, scan, grace, targets, complete } = useVolumes();

  it('are taken over with their revision after a restart, even with an emptied store', async () => {
    const manifest = await add();
    const { path } = await publish();
    await record('1', manifest);
    await cluster().remove('a', 'crash');
    await cluster()
      .store('b')
      .transact({ compare: [], success: [{ kind: 'deletePrefix', prefix: '' }] });
    await cluster().add('a');
    await grace();
    assert.deepEqual(targets(), [path]);
    const [mount] = await cluster().agent('b').mounts.of('d');
    assert.deepEqual([mount?.target, mount?.manifest], [path, manifest]);
    assert.ok(cluster().disks.get('a')?.manifests.has(manifest));
  });

  it('are made again when pods read a view whose holder removed the mount, so that nothing is evicted', async () => {
    const manifest = await add();
    complete();
    const { path } = await publish();
    await record('1', manifest, 'a', { dataPath: 'view' });
    await cluster().remove('a');
    cluster().disks.get('a')?.mounts.clear();
    await cluster().add('a');
    await until(() => targets().includes(path));
    const [mount] = await cluster().agent('b').mounts.of('d');
    assert.deepEqual([mount?.target, mount?.manifest], [path, manifest]);
  });

  it('by FUSE are made again after a loss of their holder, with retries', async () => {
    const manifest = await add();
    const { path } = await publish();
    await record('1', manifest);
    await cluster().remove('a', 'crash');
    cluster().disks.get('a')?.mounts.clear();
    await cluster().add('a');
    await until(() => targets().includes(path));
    await until(async () => (await cluster().agent('b').mounts.of('d')).length === 1);
    cluster().disks.get('a')?.mounts.clear();
    const lost = () =>
      cluster()
        .agent('a')
        .volumeMounts.capabilities()
        .find(({ name }) => name === 'lost-volumes');
    await cluster().agent('a').mounts.ended(path, 'the test ends it');
    await scan();
    assert.match(lost()?.reason ?? '', /^volume v-1 cannot read/);
    await until(() => targets().includes(path));
    await until(async () => {
      await scan();
      return lost() === undefined;
    });
  });

  it('close the folder of the sockets, which the kubelet creates world-readable', async () => {
    const folder = join(cluster().volumesOf('a'), 'run');
    await mkdir(folder, { mode: 0o755 });
    await cluster().remove('a');
    await cluster().add('a');
    assert.equal((await stat(folder)).mode & 0o777, 0o700);
  });

  it('replace the remains of a dead holder, and remove them when no pod needs them', async function () {
    const manifest = await add();
    const target = join(cluster().volumesOf('a'), 'mounts', manifest, 'fuse-d');
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
    cluster().disks.get('a')?.mounts.clear();
    await grace();
    assert.ok(!mounts() && !existsSync(target));
    await until(async () => (await cluster().agent('a').mounts.of('d')).length === 0);
  });

  it('keep the manifests of published revisions, and fetch missing ones', async () => {
    const manifest = await add();
    await record('1', manifest, 'b', { dataPath: 'view' });
    await until(() => cluster().disks.get('b')?.manifests.has(manifest) ?? false);
    await cluster().agent('b').volumeMounts.scan();
    await cluster().agent('a').removal.remove('d', { evict: false }, soon());
    await until(() => cluster().disks.get('a')?.manifests.has(manifest) === false);
    assert.ok(cluster().disks.get('b')?.manifests.has(manifest));
    await record('2', manifest, 'a', { dataPath: 'view' });
    await until(() => cluster().disks.get('a')?.manifests.has(manifest) ?? false);
    for (const node of ['a', 'b']) await rm(published(node), { recursive: true });
    for (const node of ['a', 'b']) await mkdir(published(node));
    await until(() => cluster().disks.get('b')?.manifests.has(manifest) === false);
  });

  it('and volumes keep former revisions of a frequently changing dataset', async () => {
    const mounted = await add();
    await publish();
    await record('1', mounted);
    cluster().origin.rows = [fileRow('pinned', 1n)];
    const pinned = await add();
    await cluster().agent('a').volumes.create({ name: 'v', dataset: 'd', capacityBytes: 1n, manifest: pinned });
    for (let revision = 0; revision < 12; revision++) {
      cluster().origin.rows = [fileRow(`${revision}`, 1n)];
      await add();
    }
    const kept = cluster()
      .agent('a')
      .datasets.revisionsOf('d')
      .map((one) => one.manifest);
    assert.equal(kept.length, 12);
    assert.ok(kept.includes(mounted) && kept.includes(pinned));
  });

  it('are refused by an agent without a volume folder', async () => {
    await add();
    const agent = cluster().agent('a');
    const { context, datasets, keeper, mounts } = agent;
    const openVolume = agent.openVolume.bind(agent);
    const none = new VolumeMounts(context, { tables: datasets, keeper, mounts, openVolume }, undefined);
    await none.start();
    await assert.rejects(none.publish({ dataset: 'd', manifest: '', mapsIds: false }, soon()), {
      code: 'Unsupported',
      message: /volumes\.directory/,
    });
    await none.close();
  });
});
