import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { epochMs, HearthError, silentLogger } from '@hearth/common';
import { until } from '@hearth/common/testing';
import { TestCluster } from '../testing/cluster.ts';
import { directorySource, fileRow } from '../testing/fake_origin.ts';
import { isHearthFuse } from './kernel_mounts.ts';

const soon = () => AbortSignal.timeout(300_000);

describe('mounts', () => {
  let cluster: TestCluster;
  beforeEach(async () => {
    cluster = await TestCluster.start(['a', 'b'], [fileRow('x', 5n)]);
    await add();
  });
  afterEach(async () => cluster.close());
  const add = () =>
    cluster.agent('a').resolution.add('d', { source: directorySource, include: [], exclude: [] }, () => {}, soon());

  it('are taken over after a restart, with their revision', async () => {
    const mounted = await cluster.agent('a').mounts.mount('d', '/mnt/d', 'auto', soon());
    assert.equal(mounted.source, 'hearth:d');
    cluster.origin.rows = [fileRow('y', 6n)];
    const { dataset } = await add();
    assert.notEqual(dataset.manifest, mounted.manifest);
    await cluster.remove('a', 'crash');
    await cluster.add('a');
    const [mount] = await cluster.agent('a').mounts.list();
    assert.deepEqual([mount?.target, mount?.dataset, mount?.manifest], ['/mnt/d', 'd', mounted.manifest]);
  });

  it('of writable volumes are taken over after a restart, and made again where agent and holder were lost', async () => {
    const { writableVolumes, context } = cluster.agent('a');
    const limits = { kind: 'scratch', maxBytes: 0n, maxFiles: 0n };
    const volume = await writableVolumes.create({ name: 'kv', ...limits }, context);
    await until(() => cluster.engine('a').volumes.has(volume.id));
    const mounted = await cluster.agent('a').mounts.mountVolume(volume, '/mnt/kv');
    assert.deepEqual([mounted.source, mounted.dataset, mounted.manifest], ['hearth:volume:kv', 'volume:kv', '']);
    await assert.rejects(cluster.agent('a').mounts.mountVolume(volume, '/mnt/kv'), { code: 'InUse' });
    await cluster.remove('a', 'crash');
    await cluster.add('a');
    const [mount] = await cluster.agent('a').mounts.list();
    assert.deepEqual([mount?.target, mount?.dataset], ['/mnt/kv', 'volume:kv']);
    await cluster.agent('a').mounts.unmount('/mnt/kv');
    assert.deepEqual(await cluster.agent('b').mounts.of('volume:kv'), []);
  });

  it('are refused for unknown datasets, and on targets in use', async () => {
    await assert.rejects(cluster.agent('a').mounts.mount('none', '/mnt/d', 'auto', soon()), { code: 'NotFound' });
    await cluster.agent('a').mounts.mount('d', '/mnt/d', 'auto', soon());
    await assert.rejects(cluster.agent('a').mounts.mount('d', '/mnt/d', 'auto', soon()), { code: 'InUse' });
  });

  it('block the removal of their dataset until they end, on every agent', async () => {
    await cluster.agent('b').mounts.mount('d', '/mnt/d', 'auto', soon());
    await assert.rejects(cluster.agent('a').removal.remove('d', { evict: false }, soon()), {
      code: 'InUse',
      message: 'dataset d is mounted on b at /mnt/d (hearth unmount); unmount it or delete the pod first',
    });
    cluster.engine('b').disk.mounts.delete('/mnt/d');
    cluster.agent('b').onEvent({ kind: 'mountEnded', target: '/mnt/d', message: 'unmounted by hand' });
    await until(async () => (await cluster.agent('a').mounts.of('d')).length === 0);
    await cluster.agent('a').removal.remove('d', { evict: false }, soon());
  });

  it('end with a warning where another process unmounts them', async () => {
    const agent = cluster.agent('b');
    const ends = () => agent.onEvent({ kind: 'mountEnded', target: '/mnt/d', message: 'unmounted' });
    const warnings: string[] = [];
    Object.assign(agent.context, { logger: { ...silentLogger, warn: (message: string) => warnings.push(message) } });
    const engine = cluster.engine('b');
    const unmount = engine.unmount.bind(engine);
    engine.unmount = async (target) => {
      ends();
      await unmount(target);
    };
    await agent.mounts.mount('d', '/mnt/d', 'auto', soon());
    await agent.mounts.unmount('/mnt/d');
    assert.deepEqual(warnings, []);
    ends();
    assert.deepEqual(warnings, ['a mount of this agent ended, though the agent did not unmount it']);
  });

  it('of absent agents keep their dataset for a day, or until their nodes are known to be gone', async () => {
    const { mounts } = cluster.agent('b');
    await mounts.mount('d', '/mnt/d', 'auto', soon());
    await cluster.remove('b', 'crash');
    const { removal } = cluster.agent('a');
    const away = { code: 'InUse', message: /mounted on b, whose agent is away;/ };
    await assert.rejects(removal.remove('d', { evict: false }, soon()), away);
    await assert.rejects(removal.remove('d', { evict: false, nodes: new Set(['a', 'b']) }, soon()), away);
    await removal.remove('d', { evict: false, nodes: new Set(['a']) }, soon());
    assert.deepEqual(await cluster.agent('a').mounts.of('d'), []);
  });

  it('of agents not seen for a day no longer count', async () => {
    await cluster.agent('b').mounts.mount('d', '/mnt/d', 'auto', soon());
    const used = async () => [...(await cluster.agent('a').mounts.manifests())].length;
    const { departedMs } = cluster.timings;
    const seenAt = async (): Promise<number> =>
      JSON.parse((await cluster.store('a').get('seen/b'))?.value ?? '{"at":0}').at;
    await cluster.clock.advance(departedMs - 600_000);
    // A live agent is recorded again and again.
    await until(async () => (await seenAt()) > epochMs(cluster.clock) - 60_000);
    await cluster.remove('b', 'crash');
    await cluster.clock.advance(departedMs - 600_000);
    assert.equal(await used(), 1);
    await cluster.clock.advance(600_000);
    assert.equal(await used(), 0);
    await cluster.agent('a').removal.remove('d', { evict: false }, soon());
  });

  it('that vanished before the start are forgotten', async () => {
    await cluster.agent('a').mounts.mount('d', '/mnt/d', 'auto', soon());
    await cluster.remove('a', 'crash');
    cluster.disks.get('a')?.mounts.clear();
    await cluster.add('a');
    assert.deepEqual(await cluster.agent('b').mounts.of('d'), []);
  });

  it('of an agent that waits for its holder keep later changes', async () => {
    const request = { source: { ...directorySource }, include: ['*'], exclude: [] };
    await cluster.agent('a').resolution.add('e', request, () => {}, soon());
    for (const target of ['/mnt/1', '/mnt/2', '/mnt/3']) {
      await cluster.agent('a').mounts.mount('d', target, 'auto', soon());
    }
    await cluster.remove('a', 'crash');
    const disk = cluster.disks.get('a');
    assert.ok(disk);
    disk.onResume = () => {
      throw new HearthError('Unavailable', 'no mount holder');
    };
    await cluster.add('a');
    const { mounts } = cluster.agent('a');
    await mounts.unmount('/mnt/2');
    await mounts.mount('e', '/mnt/2', 'auto', soon());
    // The engine no longer serves the first mount, so the agent checks the kernel's table.
    disk.mounts.delete('/mnt/1');
    let unmounting: Promise<void> | undefined;
    disk.onResume = () => {
      unmounting = mounts.unmount('/mnt/3');
    };
    await until(() => unmounting !== undefined);
    await unmounting;
    await until(async () => (await mounts.of('d')).length === 0);
    assert.deepEqual(
      (await mounts.list()).map(({ target, dataset }) => [target, dataset]),
      [['/mnt/2', 'e']],
    );
    // As after the store was emptied.
    await mounts.rewrite();
    assert.deepEqual(await mounts.of('d'), []);
    assert.equal((await mounts.of('e')).length, 1);
  });

  it('that are dead are mounted again as soon as possible', async function () {
    if (process.getuid?.() !== 0) this.skip();
    const target = mkdtempSync(join(tmpdir(), 'hearth-dead-'));
    try {
      mountDead(target);
    } catch {
      rmdirSync(target);
      this.skip(); // may not mount here
    }
    try {
      await cluster.agent('a').mounts.mount('d', target, 'auto', soon());
      await cluster.remove('a', 'crash');
      const disk = cluster.disks.get('a');
      assert.ok(disk);
      disk.mounts.clear();
      disk.mountFailure = new HearthError('Unavailable', 'the holder went away');
      await cluster.add('a');
      assert.equal((await cluster.agent('b').mounts.of('d')).length, 1, 'it is not forgotten');
      assert.equal(await isHearthFuse(target), true, 'nobody reads an empty folder instead');
      disk.mountFailure = undefined;
      await until(() => disk.mounts.has(target));
      assert.equal((await cluster.agent('a').mounts.list())[0]?.dataset, 'd');
    } finally {
      spawnSync('umount', ['--lazy', '--no-canonicalize', '--internal-only', target]);
      rmdirSync(target);
    }
  });
});

/** A FUSE mount of Hearth whose server is gone. */
function mountDead(target: string): void {
  const device = openSync('/dev/fuse', 'r+');
  try {
    const options = 'ro,fd=3,rootmode=40555,user_id=0,group_id=0';
    const args = ['--internal-only', '-t', 'fuse.hearth', '-o', options, 'hearth:d', target];
    execFileSync('mount', args, { stdio: ['ignore', 'pipe', 'pipe', device] });
  } finally {
    closeSync(device);
  }
}
