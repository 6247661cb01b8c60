import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { MiB, needsMounts, run, sha256, until, writeSample } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';
import { cacheFiles, flipBits } from './bit_rot.ts';

interface Mount {
  target: string;
  dataPath: string;
}

// Reads of complete files do not pass the agent: nothing but the scrub can find what is bad there.
describe('bytes that change on the disk below a mount', () => {
  let cluster: Cluster;
  let digests: Map<string, string>;
  const files = { model: 21 * MiB + 7, tokenizer: 3 * MiB };

  before(async function () {
    needsMounts(this);
    cluster = await Cluster.start(['a'], { holder: true, flags: ['--engine-scrub-rate', '1GiB'] });
    const origin = join(cluster.folder, 'origin');
    digests = writeSample(origin, files);
    await cluster.json('a', 'dataset', 'add', 'd', origin);
    await cluster.json('a', 'warm', 'd', '--node', 'a');
  });
  after(async () => cluster?.close());

  const counter = async (name: string): Promise<number> => {
    const answer = await fetch(`http://127.0.0.1:${cluster.agent('a').healthPort}/metrics`);
    return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(await answer.text())?.[1]);
  };

  for (const [path, dataPath] of [
    ['view', 'view'],
    ['passthrough', 'fuse'],
  ] as const) {
    it(`are found by the scrub, and readers by ${path} get good ones again`, async function () {
      const agent = cluster.agent('a');
      const target = cluster.mountPoint(path);
      await cluster.json('a', 'mount', 'd', target, '--data-path', dataPath);
      const read = () => sha256(readFileSync(join(target, 'model')));
      assert.equal(read(), digests.get('model'));
      const { mounts } = await cluster.json<{ mounts: Mount[] }>('a', 'mounts');
      const mount = mounts.find((each) => each.target === target);
      if (mount?.dataPath === 'daemon') return this.skip(); // no passthrough here: the agent compares what it serves

      const [file] = cacheFiles(agent.cacheFolder).filter((each) => statSync(each).size === files.model);
      assert.ok(file !== undefined);
      // Two chunks, in one of them two blocks. The agent is away, and after a start all files are due.
      await agent.stop();
      flipBits(file, [5, 9 * MiB, 9 * MiB + 100_000]);
      if (path === 'view') assert.notEqual(read(), digests.get('model'), 'nothing of Hearth is in the way of a view');
      await agent.start();
      await until('both chunks are repaired', async () => (await counter('hearth_scrub_repaired_total')) === 2);
      assert.equal(await counter('hearth_scrub_bad_blocks_total'), 3);
      assert.equal(await counter('hearth_scrub_lost_total'), 0);

      assert.equal(read(), digests.get('model'), 'from the page cache');
      await run('sh', ['-c', 'echo 1 > /proc/sys/vm/drop_caches']);
      assert.equal(read(), digests.get('model'), 'from the disk');
      await cluster.json('a', 'umount', target);
      const { stderr } = await agent.stop();
      const told = stderr
        .split('\n')
        .filter((line) => line.includes('the scrub found bytes that have changed on the disk; they were mended'))
        .map((line) => JSON.parse(line) as { level: string; file: string; chunk: string });
      assert.deepEqual(told.map(({ file, chunk }) => [file, chunk]).sort(), [
        ['model', '0'],
        ['model', '2'],
      ]);
      await agent.start();
    });
  }
});
