import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { elapse, MiB, needsMounts, start, until, writeSample } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';

const agentKills = 20;
const holderKills = 4;
const memory = 256 * MiB;

interface Residency {
  memoryBytes: number;
  dataPath: string;
}

/** Whole files in memory outlive the agents and holders that serve them, under readers that compare every byte. */
describe('files in memory', () => {
  let cluster: Cluster;
  let digests: Map<string, string>;
  let target: string;
  let bytes = 0;

  before(async function () {
    needsMounts(this);
    cluster = await Cluster.start(['a'], { holder: true, flags: ['--engine-memory-bytes', String(memory)] });
    const origin = join(cluster.folder, 'origin');
    const sizes = { 'm/1': 60 * MiB + 17, 'm/2': 40 * MiB, 'm/3': 131_072 };
    digests = writeSample(origin, sizes);
    bytes = Object.values(sizes).reduce((sum, size) => sum + size, 0);
    await cluster.json('a', 'dataset', 'add', 'd', origin);
    await cluster.json('a', 'warm', 'd');
    target = cluster.mountPoint('a');
    await cluster.json('a', 'mount', 'd', target);
  });
  after(async () => cluster?.close());

  const residency = async () => {
    const dataset = await cluster.json<{ residency: Residency[] }>('a', 'dataset', 'show', 'd');
    return dataset.residency[0];
  };
  const inMemory = () => until('all of it is in memory', async () => (await residency())?.memoryBytes === bytes);

  it('are there when a warm job has ended, and read by passthrough', async () => {
    await inMemory();
    assert.equal((await residency())?.dataPath, 'passthrough');
  });

  it(`are read right while the agent is killed ${agentKills} times and the holder ${holderKills} times`, async () => {
    const sums = join(cluster.folder, 'sums');
    const stop = join(cluster.folder, 'stop');
    writeFileSync(sums, [...digests].map(([path, digest]) => `${digest}  ${join(target, path)}\n`).join(''));
    const compare = `until [ -e ${stop} ]; do sha256sum --quiet --check ${sums} || exit 1; done`;
    const readers = [1, 2].map(() => start('bash', ['-c', compare]));
    for (let kill = 1; kill <= agentKills; kill++) {
      await elapse(150, 'readers are somewhere in a file');
      await cluster.agent('a').kill();
      await cluster.agent('a').start();
      if (kill % (agentKills / holderKills) !== 0) continue;
      await cluster.endHolder('SIGKILL');
      await cluster.startHolder();
      await until('the next holder serves the agent', async () => {
        const probe = cluster.mountPoint('probe');
        const { code } = await cluster.hearth('a', 'mount', 'd', probe, '--data-path', 'fuse');
        if (code === 0) await cluster.hearth('a', 'umount', probe);
        return code === 0;
      });
    }
    writeFileSync(stop, '');
    for (const reader of readers) {
      const { code, stdout, stderr } = await reader.outcome;
      assert.equal(code, 0, `${stdout}${stderr}`);
    }
    await inMemory();
  });
});
