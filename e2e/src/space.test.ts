import assert from 'node:assert/strict';
import { mkdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { MiB, needsMounts, run, skip, until, writeSample } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';
import type { Context } from 'mocha';

describe('cache directories', () => {
  let cluster: Cluster;
  beforeEach(async () => {
    cluster = await Cluster.start([]);
  });
  afterEach(async () => cluster.close());

  /** A file system of its own in a file, mounted below the cluster's folder. */
  const mountImage = async (context: Context, name: string, bytes: number, make: string[]): Promise<string> => {
    if (process.getuid?.() !== 0) skip(context, 'loop mounts need root');
    const image = join(cluster.folder, `${name}.img`);
    const folder = join(cluster.folder, name);
    writeFileSync(image, '');
    truncateSync(image, bytes);
    mkdirSync(folder);
    const [program = '', ...args] = make;
    const made = await run(program, [...args, image]);
    if (made.code !== 0) skip(context, `${program} cannot be run: ${made.stderr.trim()}`);
    const mounted = await run('mount', ['-o', 'loop', image, folder]);
    if (mounted.code !== 0) skip(context, `the image cannot be mounted: ${mounted.stderr.trim()}`);
    return folder;
  };

  const addSample = async (sizes: Record<string, number>, agent: string) => {
    const origin = join(cluster.folder, 'origin');
    const digests = writeSample(origin, sizes);
    await cluster.json(agent, 'dataset', 'add', 'd', origin);
    return digests;
  };

  it('with a budget that is too small refuse the warm, keep what they have and make room for other files', async () => {
    await cluster.add('a', { cacheDirectories: `${join(cluster.folder, 'cache-a')}=24MiB:1GiB` });
    await addSample({ first: 12 * MiB, huge: 40 * MiB, second: 16 * MiB }, 'a');
    await cluster.json('a', 'warm', 'd', 'first');
    const refused = await cluster.hearth('a', 'warm', 'd', 'huge');
    assert.equal(refused.code, 8, refused.stderr);
    assert.match(refused.stderr + refused.stdout, /budget|room/);
    const { summary } = await cluster.json<{ summary: Record<string, number> }>('a', 'verify', 'd', 'first');
    assert.equal(summary?.mismatches, 0);
    // Whole files make room, the one used longest ago first.
    await cluster.json('a', 'warm', 'd', 'second');
    // Pins are kept: there is no room for another.
    await cluster.json('a', 'pin', 'd', 'second');
    const kept = await cluster.hearth('a', 'warm', 'd', 'first');
    assert.equal(kept.code, 8, kept.stderr);
    const second = await cluster.json<{ summary: Record<string, number> }>('a', 'verify', 'd', 'second');
    assert.equal(second.summary?.localBytes, 16 * MiB);
  });

  it('on a disk that is full refuse in words, and lose nothing', async function () {
    const folder = await mountImage(this, 'full', 64 * MiB, ['mkfs.ext4', '-q', '-F', '-m', '0']);
    await cluster.add('a', { cacheDirectories: `${join(folder, 'cache')}=1GiB` });
    await addSample({ small: 6 * MiB, huge: 90 * MiB }, 'a');
    await cluster.json('a', 'warm', 'd', 'small');
    const refused = await cluster.hearth('a', 'warm', 'd', 'huge');
    assert.equal(refused.code, 8, refused.stderr);
    const agent = cluster.agent('a');
    await agent.kill();
    await agent.start();
    const { summary } = await cluster.json<{ summary: Record<string, number> }>('a', 'verify', 'd', 'small');
    assert.equal(summary?.mismatches, 0);
    assert.equal((await agent.stop()).code, 0);
  });

  it('on a disk that is full read through, and say so in the log, the metrics and the mount', async function () {
    needsMounts(this);
    const folder = await mountImage(this, 'full', 64 * MiB, ['mkfs.ext4', '-q', '-F', '-m', '0']);
    await cluster.startHolder();
    const agent = await cluster.add('a', { cacheDirectories: `${join(folder, 'cache')}=1GiB` });
    const digests = await addSample({ huge: 90 * MiB }, 'a');
    const target = cluster.mountPoint('a');
    await cluster.json('a', 'mount', 'd', target, '--data-path', 'fuse');
    for (let tries = 0; tries < 2; tries++) {
      const read = await run('sha256sum', [join(target, 'huge')]);
      assert.equal(read.code, 0, read.stderr);
      assert.equal(read.stdout.split(' ')[0], digests.get('huge'));
    }
    const { mounts } = await cluster.json<{ mounts: { dataPath: string }[] }>('a', 'mounts');
    assert.equal(mounts[0]?.dataPath, 'through');
    const metrics = await (await fetch(`http://127.0.0.1:${agent.healthPort}/metrics`)).text();
    assert.ok(Number(/^hearth_through_bytes_total (\d+)$/m.exec(metrics)?.[1]) > 0, metrics);
    assert.doesNotMatch(metrics, /^hearth_mount_errors_total\{code="\w+"\} [1-9]/m);
    await cluster.json('a', 'unmount', target);
    const { stdout, stderr } = await agent.stop();
    const lines = (stdout + stderr)
      .split('\n')
      .filter((line) => line.includes('bytes were given to readers and not cached'));
    assert.ok(lines.length >= 1, stderr);
    const told = JSON.parse(lines[0] ?? '') as Record<string, string>;
    assert.match(told.message ?? '', /has no room for|No space left on device/);
  });

  it('on a file system without hard links are refused with the reason', async function () {
    const folder = await mountImage(this, 'vfat', 64 * MiB, ['mkfs.vfat']);
    const started = await cluster.prepare('a', { cacheDirectories: `${join(folder, 'cache')}=32MiB` }).launch();
    const ended = await until('the agent ends', () => started.ended);
    assert.equal(ended.code, 13, ended.stderr);
    assert.match(ended.stderr, /hard links|sparse|ext4|xfs/);
  });
});
