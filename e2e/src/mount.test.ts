import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { mkdir, open, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { MiB, needsMounts, run, sha256, until, writeSample } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';

interface Mount {
  target: string;
  dataPath: string;
  reason: string;
  passthroughOpens: number;
  daemonOpens: number;
  bytesServed: number;
}

// native/fuse/hearth_ioctl.h
const willNeed = 0xbe01;
const dontNeed = 0xbe02;

describe('a mount', () => {
  let cluster: Cluster;
  let digests: Map<string, string>;
  let target: string;
  const files = { big: 24 * MiB + 3, 'x/y/small': 100_000, 'x/other': 9 * MiB, empty: 0 };

  before(async function () {
    needsMounts(this);
    cluster = await Cluster.start(['a', 'b'], { holder: true });
    const origin = join(cluster.folder, 'origin');
    digests = writeSample(origin, files);
    await cluster.json('a', 'dataset', 'add', 'd', origin);
    target = cluster.mountPoint('d');
  });
  after(async () => cluster?.close());

  const mounted = async (): Promise<Mount> => {
    const { mounts } = await cluster.json<{ mounts: Mount[] }>('a', 'mounts');
    const found = mounts.find((mount) => mount.target === target);
    assert.ok(found);
    return found;
  };
  const read = (path: string) => sha256(readFileSync(join(target, path)));
  const attribute = async (path: string, name: string): Promise<string> => {
    const { code, stdout, stderr } = await run('getfattr', ['--only-values', '-n', name, join(target, path)]);
    assert.equal(code, 0, stderr);
    return stdout;
  };
  const advise = async (path: string, request: number): Promise<void> => {
    const script = `import fcntl,os,sys; fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), ${request})`;
    const { code, stderr } = await run('python3', ['-c', script, join(target, path)]);
    assert.equal(code, 0, stderr);
  };
  const resident = async (path: string): Promise<number> =>
    Number.parseInt(await attribute(path, 'user.hearth.resident'), 10);

  it('of a dataset that is partly here is by FUSE and says why', async () => {
    await cluster.json('a', 'warm', 'd', 'x/other', '--node', 'a');
    const mount = await cluster.json<Mount>('a', 'mount', 'd', target);
    assert.equal(mount.dataPath, 'fuse');
    assert.notEqual(mount.reason, '');
    assert.deepEqual(readdirSync(target, { recursive: true }).sort(), [
      'big',
      'empty',
      'x',
      'x/other',
      'x/y',
      'x/y/small',
    ]);
    assert.equal(statSync(join(target, 'big')).size, files.big);
    assert.throws(() => writeFileSync(join(target, 'new'), ''), { code: 'EROFS' });
  });

  it('is read while files arrive; complete files are opened without the agent', async () => {
    const before = await mounted();
    assert.equal(read('big'), digests.get('big'));
    const between = await mounted();
    assert.ok(between.daemonOpens > before.daemonOpens);
    for (const [path, expected] of digests) assert.equal(read(path), expected, path);
    await until('big is complete', async () => (await resident('big')) === files.big);
    const opened = (await mounted()).passthroughOpens;
    await run('sh', ['-c', 'echo 2 > /proc/sys/vm/drop_caches']);
    for (const [path, expected] of digests) assert.equal(read(path), expected, path);
    const after = await mounted();
    if (after.dataPath === 'daemon') assert.notEqual(after.reason, '');
    else assert.ok(after.passthroughOpens > opened, JSON.stringify(after));
  });

  it('shows by attributes where bytes come from', async () => {
    assert.match(await attribute('big', 'user.hearth.source'), /d/);
    assert.equal(await resident('x/other'), files['x/other']);
    assert.match(await attribute('big', 'user.hearth.datapath'), /^(passthrough|daemon)/);
    const missing = await run('getfattr', ['-n', 'user.hearth.none', join(target, 'big')]);
    assert.notEqual(missing.code, 0);
  });

  it('takes DONTNEED and WILLNEED, on folders as well', async () => {
    await advise('x', dontNeed);
    await until(
      'the files below x are gone',
      async () => (await resident('x/other')) + (await resident('x/y/small')) === 0,
    );
    assert.equal(await resident('big'), files.big);
    await advise('x', willNeed);
    await until('the files below x are back', async () => (await resident('x/other')) === files['x/other']);
    for (const [path, expected] of digests) assert.equal(read(path), expected, path);
  });

  it('keeps pinned and open files, and other nodes do not matter to it', async () => {
    await cluster.json('a', 'pin', 'd', 'x/other', '--node', 'a');
    const holding = await open(join(target, 'big'), 'r');
    const { nodes } = await cluster.json<{ nodes: { node: string; filesKept: number }[] }>('a', 'evict', 'd');
    assert.ok((nodes.find((node) => node.node === 'a')?.filesKept ?? 0) >= 2, JSON.stringify(nodes));
    assert.equal(await resident('x/other'), files['x/other']);
    assert.equal(await resident('big'), files.big);
    const busy = await cluster.hearth('a', 'umount', target);
    assert.equal(busy.code, 9, busy.stderr);
    await holding.close();
    await cluster.json('a', 'unpin', 'd', '--node', 'a');
    const removal = await cluster.hearth('a', 'dataset', 'rm', 'd');
    assert.equal(removal.code, 9, removal.stderr);
    await cluster.json('a', 'umount', target);
  });

  it('lists 100,000 small files', async () => {
    const many = join(cluster.folder, 'many');
    for (let folder = 0; folder < 10; folder++) {
      await mkdir(join(many, `${folder}`), { recursive: true });
      for (let batch = 0; batch < 10_000; batch += 500) {
        const names = Array.from({ length: 500 }, (_, i) => join(many, `${folder}`, `file-${batch + i}`));
        await Promise.all(names.map((name) => writeFile(name, name)));
      }
    }
    await cluster.json('a', 'dataset', 'add', 'many', many);
    const place = cluster.mountPoint('many');
    await cluster.json('a', 'mount', 'many', place, '--data-path', 'fuse');
    const started = performance.now();
    const { stdout } = await run('find', [place, '-type', 'f'], { timeoutMs: 330_000 });
    console.log(`      in ${((performance.now() - started) / 1000).toFixed(1)} s`);
    assert.equal(stdout.trimEnd().split('\n').length, 100_000);
    const path = join(place, '3', 'file-4711');
    assert.equal(readFileSync(path, 'utf8'), join(many, '3', 'file-4711'));
    await cluster.json('a', 'umount', place);
  });
});
