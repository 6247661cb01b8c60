import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { MiB, needsMounts, run, sha256, writeSample } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';
import { cacheFiles, flipBits } from './bit_rot.ts';

interface VerifiedFile {
  path: string;
  ok: boolean;
  message: string;
  repairedBlocks: number;
}

const blockBytes = 64 << 10;

describe('hearth verify on a damaged disk', () => {
  let cluster: Cluster;
  let digests: Map<string, string>;
  const targets: string[] = [];
  const files: Record<string, number> = { a: 21 * MiB + 7, b: 9 * MiB, c: 5 * MiB + 1, d: 3 * MiB };
  // In the first block, in the middle of a chunk and in the last block.
  const damaged = (size: number) => [5, Math.floor(size / 2), size - 1];

  before(async function () {
    needsMounts(this);
    // The scrub would repair, too.
    cluster = await Cluster.start(['a'], { holder: true, flags: ['--engine-scrub-rate', '0'] });
    const origin = join(cluster.folder, 'origin');
    digests = writeSample(origin, files);
    await cluster.json('a', 'dataset', 'add', 'd', origin);
    await cluster.json('a', 'warm', 'd', '--node', 'a');
    for (const dataPath of ['view', 'fuse']) {
      const target = cluster.mountPoint(dataPath);
      await cluster.json('a', 'mount', 'd', target, '--data-path', dataPath);
      targets.push(target);
    }
  });
  after(async () => cluster?.close());

  const dropPageCache = () => run('sh', ['-c', 'echo 1 > /proc/sys/vm/drop_caches']);
  const wrong = () =>
    targets.flatMap((target) =>
      Object.keys(files).filter((path) => sha256(readFileSync(join(target, path))) !== digests.get(path)),
    );
  const damage = async () => {
    const cached = cacheFiles(cluster.agent('a').cacheFolder);
    for (const size of Object.values(files)) {
      const file = cached.find((each) => statSync(each).size === size);
      assert.ok(file !== undefined);
      flipBits(file, damaged(size));
    }
    await dropPageCache();
  };
  const verify = async () => {
    const { code, stdout } = await cluster.hearth('a', 'verify', 'd', '--json');
    const lines = stdout.trim().split('\n').slice(0, -1);
    return { code, found: lines.map((line) => JSON.parse(line) as VerifiedFile) };
  };

  it('names and repairs every bad block in one run, and mounts show good bytes', async () => {
    await damage();
    assert.ok(wrong().length >= 4, 'nothing of Hearth is in the way of a view');
    const { code, found } = await verify();
    assert.equal(code, 0);
    for (const { path, ok, message, repairedBlocks } of found) {
      const blocks = damaged(files[path] ?? 0).map((place) => Math.floor(place / blockBytes));
      assert.deepEqual([path, ok, repairedBlocks], [path, true, 3]);
      assert.equal(message, `blocks ${blocks.join(', ')} had changed and were repaired`);
    }
    assert.equal(found.length, 4);
    assert.deepEqual(wrong(), [], 'from the page cache');
    await dropPageCache();
    assert.deepEqual(wrong(), [], 'from the disk');
    const again = await verify();
    assert.deepEqual(
      again.found.map((file) => file.repairedBlocks),
      [0, 0, 0, 0],
    );
  });
});
