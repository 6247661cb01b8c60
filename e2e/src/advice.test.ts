import assert from 'node:assert/strict';
import { readFileSync, rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { MiB, needsMounts, root, run, sha256, until, writeSample } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';

interface Answer {
  nodes: { node: string; filesFreed: number; filesPinned: number; filesOpen: number; message: string }[];
  filesNotInOrigin: number;
  pathsNotInOrigin: string[];
}

const names = ['a', 'b', 'c'];
const files = { 'x/one': 9 * MiB + 3, 'x/two': 5 * MiB, 'y/three': 12 * MiB, four: 100_000 };
const total = Object.values(files).reduce((sum, size) => sum + size, 0);

describe('advice for three agents', () => {
  let cluster: Cluster;
  let origin: string;
  let digests: Map<string, string>;

  before(async function () {
    needsMounts(this);
    cluster = await Cluster.start(names, { holder: true });
    origin = join(cluster.folder, 'origin');
    digests = writeSample(origin, files);
    await cluster.json('a', 'dataset', 'add', 'd', origin);
  });
  after(async () => cluster?.close());

  const metrics = async (node: string, name: string): Promise<number> => {
    const text = await (await fetch(`http://127.0.0.1:${cluster.agent(node).healthPort}/metrics`)).text();
    const value = text.split('\n').find((line) => line.startsWith(`${name} `));
    assert.ok(value, `${name} is not in\n${text}`);
    return Number(value.split(' ')[1]);
  };
  const resident = async (): Promise<number[]> =>
    await Promise.all(names.map((node) => metrics(node, 'hearth_resident_bytes')));
  const dontNeed = async (...words: string[]): Promise<Answer> =>
    await cluster.json<Answer>('a', 'advise', 'dontneed', 'd', ...words);
  /** The engine holds files closed or compared just now for a moment. */
  const allGone = async (...words: string[]) => {
    await until('nothing is left', async () => {
      await dontNeed('--scope', 'cluster', ...words);
      return (await resident()).every((bytes) => bytes === 0);
    });
  };

  it('brings what no agent holds into the cluster, once', async () => {
    await cluster.json('a', 'advise', 'willneed', 'd', 'x/**', '--node', 'b', '--follow');
    assert.deepEqual(await resident(), [0, files['x/one'] + files['x/two'], 0]);
    await cluster.json('a', 'advise', 'willneed', 'd', '--scope', 'cluster', '--follow');
    assert.equal(
      (await resident()).reduce((sum, bytes) => sum + bytes, 0),
      total,
    );
  });

  it('lets go of it everywhere, and a read brings it again', async () => {
    await cluster.json('a', 'warm', 'd');
    assert.deepEqual(await resident(), [total, total, total]);
    await allGone();
    const target = cluster.mountPoint('again');
    await cluster.json('b', 'mount', 'd', target, '--data-path', 'fuse');
    for (const [path, digest] of digests) assert.equal(sha256(readFileSync(join(target, path))), digest, path);
    await cluster.json('b', 'umount', target);
  });

  it('takes nothing that is pinned or open, and says so', async () => {
    await cluster.json('a', 'warm', 'd');
    await cluster.json('a', 'pin', 'd', 'x/one', '--node', 'b');
    const target = cluster.mountPoint('open');
    await cluster.json('c', 'mount', 'd', target, '--data-path', 'daemon');
    const file = await open(join(target, 'y/three'));
    const kept = [0, files['x/one'], files['y/three']];
    await until('only these are left', async () => {
      const { nodes } = await dontNeed('--scope', 'cluster');
      assert.deepEqual([nodes[1]?.filesPinned, nodes[2]?.filesOpen], [1, 1]);
      assert.match(nodes[2]?.message ?? '', /1 open: try again when they are closed/);
      return (await resident()).join() === kept.join();
    });
    const bytes = new Uint8Array(files['y/three']);
    assert.equal((await file.read(bytes, 0, bytes.length, 0)).bytesRead, bytes.length);
    assert.equal(sha256(bytes), digests.get('y/three'));
    await file.close();
    await cluster.json('c', 'umount', target);
    await cluster.json('a', 'unpin', 'd', 'x/one', '--node', 'b');
    await allGone();
  });

  it('is taken by ioctl, for this node and for the cluster', async () => {
    const target = cluster.mountPoint('ioctl');
    await cluster.json('c', 'mount', 'd', target, '--data-path', 'daemon');
    const advise = async (advice: string, path: string) => {
      const script = join(root, 'examples/advise.py');
      const { code, stderr } = await run('python3', [script, advice, join(target, path)]);
      assert.equal(code, 0, stderr);
    };
    await cluster.json('a', 'advise', 'willneed', 'd', 'x/**', '--follow');
    await advise('willneed-cluster', '');
    const others = total - files['x/one'] - files['x/two'];
    await until('the rest is here', async () => (await resident())[2] === others);
    await advise('dontneed-memory', 'y');
    await advise('dontneed', 'y');
    await until('y is gone', async () => (await resident())[2] === files.four);
    assert.equal((await resident())[0], files['x/one'] + files['x/two'], 'other nodes keep theirs');
    assert.equal(await metrics('c', 'hearth_advice_total{advice="willneed"}'), 1 + 1);
    await cluster.json('c', 'umount', target);
  });

  it('keeps what the origin no longer has, unless it is forced', async () => {
    await cluster.json('a', 'warm', 'd', '--node', 'a');
    rmSync(join(origin, 'x/two'));
    await until('only that is left', async () => {
      const { filesNotInOrigin, pathsNotInOrigin } = await dontNeed('--scope', 'cluster');
      assert.deepEqual([filesNotInOrigin, pathsNotInOrigin], [1, ['x/two']]);
      return (await resident()).join() === [files['x/two'], 0, 0].join();
    });
    await allGone('--force');
  });
});
