import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { closeSync, openSync, readFileSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { elapse, MiB, needsMounts, run, start, until, writeSample } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';

const names = ['a', 'b', 'c'];

interface Job {
  state: string;
  message: string;
  bytesReady: number;
}

describe('agents killed in turn', () => {
  let cluster: Cluster;
  let digests: Map<string, string>;

  before(async function () {
    needsMounts(this);
    cluster = await Cluster.start(names, { holder: true });
    const origin = join(cluster.folder, 'origin');
    digests = writeSample(origin, { 'm/1': 90 * MiB + 17, 'm/2': 70 * MiB, 'm/3': 5, small: 65_537, empty: 0 });
    await cluster.json('a', 'dataset', 'add', 'd', origin);
  });
  after(async () => cluster?.close());

  /** Every byte through an agent, against the origin's. */
  const verifyAll = async (agent: string) => {
    const { summary } = await cluster.json<{ summary: Record<string, number> }>(agent, 'verify', 'd', '--origin');
    assert.equal(summary?.mismatches, 0);
    assert.equal(summary?.files, digests.size);
  };

  it('during a warm: the job goes on and every byte is right', async () => {
    await cluster.json('a', 'warm', 'd', '--detach', '--name', 'w', '--rate', '30MiB');
    for (const victim of names) {
      const agent = cluster.agent(victim);
      await elapse(400, 'the job is somewhere in the middle');
      await agent.kill();
      await agent.start();
    }
    const job = await until('the job ends', async () => {
      const present = await cluster.json<Job>('b', 'job', 'show', 'w');
      return ['Succeeded', 'Failed', 'Cancelled'].includes(present.state) ? present : false;
    });
    assert.equal(job.state, 'Succeeded', job.message);
    for (const name of names) await verifyAll(name);
  });

  it('during reads by cat: the command says so, and what is claimed afterwards is there', async () => {
    await cluster.hearth('a', 'evict', 'd');
    for (const victim of names) {
      const reading = cluster.begin(victim, 'verify', 'd');
      await elapse(900, 'the reads are somewhere in the middle');
      await cluster.agent(victim).kill();
      const { code } = await reading.outcome;
      assert.ok(code === 0 || code === 6, `the reader ended with ${code}`);
      await cluster.agent(victim).start();
      const { summary } = await cluster.json<{ summary: Record<string, number> }>(victim, 'verify', 'd');
      assert.equal(summary?.mismatches, 0);
    }
    for (const name of names) await verifyAll(name);
  });

  it('during reads through a mount: the reader waits, complete files are read all the while', async () => {
    const target = cluster.mountPoint('a');
    await cluster.hearth('a', 'evict', 'd');
    await cluster.json('a', 'mount', 'd', target, '--data-path', 'fuse');
    // Complete and open: its reads go to the cache file itself.
    assert.equal(digest(join(target, 'small')), digests.get('small'));
    const small = openSync(join(target, 'small'), 'r');
    const reader = start('sha256sum', [join(target, 'm/1'), join(target, 'm/2')]);
    await elapse(50, 'the reads are somewhere in the middle');
    await cluster.agent('a').kill();
    assert.equal(readSync(small, Buffer.alloc(65_537)), 65_537);
    closeSync(small);
    await cluster.agent('a').start();
    const { code, stdout, stderr } = await reader.outcome;
    assert.equal(code, 0, stderr);
    assert.deepEqual(
      stdout.match(/^[0-9a-f]{64}/gm),
      ['m/1', 'm/2'].map((path) => digests.get(path)),
    );
    const { mounts } = await cluster.json<{ mounts: { target: string; dataset: string }[] }>('a', 'mounts');
    assert.deepEqual(
      mounts.map((mount) => [mount.target, mount.dataset]),
      [[target, 'd']],
    );
    await cluster.json('a', 'umount', target);
  });

  it('with a view: it is read while the agent is down, and is known and ended by the next agent', async () => {
    await cluster.json('b', 'warm', 'd', '--node', 'b');
    const target = cluster.mountPoint('b');
    const mounted = await cluster.json('b', 'mount', 'd', target);
    assert.equal(mounted.dataPath, 'view');
    await cluster.agent('b').kill();
    for (const [path, expected] of digests) assert.equal(digest(join(target, path)), expected);
    await cluster.agent('b').start();
    const { mounts } = await cluster.json<{ mounts: Record<string, unknown>[] }>('b', 'mounts');
    assert.deepEqual(
      mounts.map((mount) => [mount.target, mount.dataPath, mount.dataset]),
      [[target, 'view', 'd']],
    );
    await cluster.json('b', 'umount', target);
    assert.equal((await run('mountpoint', ['-q', target])).code, 32);
    // The agent may still hold a file for a moment, as it looks at bytes of the process before.
    await until('nothing of it is in use', async () => {
      const evicted = await cluster.json<{ nodes: { node: string; filesKept: number }[] }>('b', 'evict', 'd');
      return evicted.nodes.find((node) => node.node === 'b')?.filesKept === 0;
    });
  });
});

function digest(path: string): string {
  return createHash('sha256').update(readFileSync(path)).digest('hex');
}
