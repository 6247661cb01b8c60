import assert from 'node:assert/strict';
import {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  statSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { MiB, needsMounts, run, skip, until } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';
import type { Context } from 'mocha';

interface Volume {
  state: string;
  epoch: number;
  message: string;
  usedBytes: number;
}

/** One documented outcome for each thing that goes wrong (docs/scratch.md). */
describe('a scratch volume under bad circumstances', () => {
  let cluster: Cluster;
  before(function () {
    needsMounts(this);
  });
  afterEach(async () => cluster?.close());

  const show = (agent: string) => cluster.json<Volume>(agent, 'volume', 'show', 'kv');

  /** A volume that `a` leads, and its mounts. */
  async function mounted(agents: string[], ...options: string[]): Promise<string[]> {
    await cluster.json('a', 'volume', 'create', 'kv', ...options);
    await until('an agent leads it', async () => (await show('a')).state === 'Ready');
    const mounts = agents.map((agent) => cluster.mountPoint(agent));
    for (const [index, agent] of agents.entries()) await cluster.json(agent, 'mount', 'volume:kv', mounts[index] ?? '');
    return mounts;
  }

  it('takes names of 255 bytes and refuses longer ones and long paths', async () => {
    cluster = await Cluster.start(['a'], { holder: true });
    const [a = ''] = await mounted(['a']);
    const longest = 'n'.repeat(255);
    writeFileSync(join(a, longest), 'x');
    assert.deepEqual(readdirSync(a), [longest]);
    assert.throws(() => writeFileSync(join(a, `${longest}n`), ''), { code: 'ENAMETOOLONG' });
    assert.throws(() => mkdirSync(join(a, `${longest}n`)), { code: 'ENAMETOOLONG' });
    assert.throws(() => statSync(join(a, 'x/'.repeat(2048))), { code: 'ENAMETOOLONG' });
    writeFileSync(join(a, 'ünï\ncode'), '');
    assert.ok(readdirSync(a).includes('ünï\ncode'));
  });

  it('refuses bytes beyond its size, and goes on when files are removed', async () => {
    cluster = await Cluster.start(['a', 'b'], { holder: true });
    const [a = '', b = ''] = await mounted(['a', 'b'], '--size', '8MiB');
    writeFileSync(join(a, 'fits'), Buffer.alloc(6 * MiB));
    assert.throws(() => writeFileSync(join(a, 'too large'), Buffer.alloc(20 * MiB)), { code: 'ENOSPC' });
    await until('no byte of it counts', async () => (await show('a')).usedBytes === 6 * MiB);
    unlinkSync(join(b, 'fits'));
    unlinkSync(join(a, 'too large'));
    await until('there is room again', async () => (await show('a')).usedBytes === 0);
    writeFileSync(join(b, 'fits again'), Buffer.alloc(6 * MiB));
    assert.equal(readFileSync(join(a, 'fits again')).length, 6 * MiB);
  });

  it('publishes a file as far as it was written when its writer is killed', async () => {
    cluster = await Cluster.start(['a', 'b'], { holder: true });
    const [a = '', b = ''] = await mounted(['a', 'b']);
    const script = 'exec 3>"$0"; printf written >&3; kill -KILL $$';
    await run('bash', ['-c', script, join(b, 'half')]);
    assert.equal(readFileSync(join(a, 'half'), 'utf8'), 'written');
  });

  it('waits for its leader until the deadline, while open files are read and written on', async () => {
    cluster = await Cluster.start(['a', 'b'], { holder: true });
    const [, b = ''] = await mounted(['a', 'b'], '--deadline', '2s');
    writeFileSync(join(b, 'open'), 'bytes');
    const reader = openSync(join(b, 'open'), 'r');
    const writer = openSync(join(b, 'written'), 'w');
    const { epoch } = await show('b');
    await cluster.agent('a').kill();
    assert.throws(() => statSync(join(b, 'absent')), { code: 'ETIMEDOUT' });
    const bytes = Buffer.alloc(5);
    assert.equal(readSync(reader, bytes, 0, 5, 0), 5);
    writeSync(writer, 'on');
    await cluster.agent('a').start();
    await until('an agent leads it', async () => {
      const seen = await show('b');
      return seen.state === 'Ready' && seen.epoch > epoch;
    });
    closeSync(writer);
    closeSync(reader);
    assert.equal(readFileSync(join(b, 'written'), 'utf8'), 'on');
    assert.throws(() => statSync(join(b, 'absent')), { code: 'ENOENT' });
  });

  it('answers ENOENT when it was deleted under open files, which are read and written on', async () => {
    cluster = await Cluster.start(['a', 'b'], { holder: true });
    const [a = '', b = ''] = await mounted(['a', 'b']);
    writeFileSync(join(a, 'read'), 'bytes');
    const reader = openSync(join(a, 'read'), 'r');
    const writer = openSync(join(b, 'written'), 'w');
    await cluster.json('b', 'volume', 'delete', 'kv', '--force');
    const gone = (mount: string) =>
      until('its mounts know nothing', () => {
        try {
          statSync(join(mount, 'read'));
          return false;
        } catch (thrown) {
          return (thrown as NodeJS.ErrnoException).code === 'ENOENT';
        }
      });
    await Promise.all([gone(a), gone(b)]);
    assert.equal(readSync(reader, Buffer.alloc(5), 0, 5, 0), 5);
    writeSync(writer, 'on');
    closeSync(reader);
    try {
      closeSync(writer);
    } catch (thrown) {
      assert.ok(['ENOENT', 'EIO'].includes((thrown as NodeJS.ErrnoException).code ?? ''));
    }
    await cluster.json('a', 'volume', 'create', 'kv');
    await until('an agent leads the next one', async () => (await show('a')).state === 'Ready');
  });

  it('refuses changes while the disk of its log is full, and goes on afterwards', async function () {
    cluster = await Cluster.start([], { holder: true });
    const disk = await smallDisk(this, cluster.folder, 96 * MiB);
    await cluster.add('a', { cacheDirectories: `${join(disk, 'cache')}=1GiB:0` });
    const [a = ''] = await mounted(['a']);
    writeFileSync(join(a, 'before'), 'x');
    const ballast = join(disk, 'ballast');
    await run('dd', ['if=/dev/zero', `of=${ballast}`, 'bs=1M']);
    assert.throws(
      () => {
        for (let index = 0; index < 100_000; index++) mkdirSync(join(a, `folder ${index}`));
      },
      { code: 'ENOSPC' },
    );
    assert.equal(readFileSync(join(a, 'before'), 'utf8'), 'x');
    unlinkSync(ballast);
    await until('changes pass again', () => {
      try {
        mkdirSync(join(a, `after ${Date.now()}`));
        return true;
      } catch {
        return false;
      }
    });
  });
});

/** A file system of its own in a file, mounted below the folder. */
async function smallDisk(context: Context, parent: string, bytes: number): Promise<string> {
  const [image, folder] = [join(parent, 'disk.img'), join(parent, 'disk')];
  writeFileSync(image, '');
  truncateSync(image, bytes);
  mkdirSync(folder);
  const made = await run('mkfs.ext4', ['-q', '-F', '-m', '0', image]);
  if (made.code !== 0) skip(context, `mkfs.ext4 cannot be run: ${made.stderr.trim()}`);
  const mounting = await run('mount', ['-o', 'loop', image, folder]);
  if (mounting.code !== 0) skip(context, `the image cannot be mounted: ${mounting.stderr.trim()}`);
  return folder;
}
