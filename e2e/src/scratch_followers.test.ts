import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { MiB, needsMounts, sha256, until } from '@hearth/common/testing';
import { Cluster, tailsFolder } from '@hearth/common/testing/agents';

interface Volume {
  id: string;
  state: string;
  leader: string;
  epoch: number;
  followers: { node: string; listed: boolean; lag: number; error: string }[];
}

/** The bound of a follower's lead: the lease of the agent that was killed, a moment for its return, and the election. */
const takeoverMs = 15_000;

/** One scratch volume on three agents: `a` leads it, and the others follow. */
describe('the followers of a scratch volume', () => {
  const names = ['a', 'b', 'c'] as const;
  type Name = (typeof names)[number];
  let cluster: Cluster;
  const mounts = {} as Record<Name, string>;

  before(async function () {
    needsMounts(this);
    cluster = await Cluster.start(names, { holder: true });
    await cluster.allReady();
    await cluster.json('a', 'volume', 'create', 'kv', '--kind', 'scratch', '--size', '10Gi');
    await ledBy('b', 'a');
    for (const name of names) {
      mounts[name] = cluster.mountPoint(name);
      await cluster.json(name, 'mount', 'volume:kv', mounts[name]);
    }
  });
  after(async () => cluster?.close());

  const volume = (by: Name) => cluster.json<Volume>(by, 'volume', 'show', 'kv');
  const ledBy = (by: Name, ...nodes: string[]) =>
    until(`an agent on ${nodes.join(' or ')} leads`, async () => nodes.includes((await volume(by)).leader));
  /** The nodes are on the list, and their logs are the leader's. */
  const followedBy = (by: Name, ...nodes: string[]) =>
    until(`${nodes.join(' and ')} follow`, async () => {
      const { followers } = await volume(by);
      const equal = followers.filter(({ listed, lag }) => listed && lag === 0).map(({ node }) => node);
      return equal.sort().join() === nodes.join();
    });
  const bytesOf = (name: string, index: number) => Buffer.alloc(100_000 + index, `${name} ${index} `);
  const write = (name: Name, count: number, folder = `of ${name}`) => {
    mkdirSync(join(mounts[name], folder));
    for (let i = 0; i < count; i++) {
      writeFileSync(join(mounts[name], folder, 'new'), bytesOf(name, i));
      renameSync(join(mounts[name], folder, 'new'), join(mounts[name], folder, `file ${i}`));
    }
  };
  const check = (reader: Name, name: Name, count: number, folder = `of ${name}`) => {
    const files = readdirSync(join(mounts[reader], folder)).sort();
    assert.deepEqual(files, Array.from({ length: count }, (_, i) => `file ${i}`).sort());
    for (let i = 0; i < count; i++) {
      const read = readFileSync(join(mounts[reader], folder, `file ${i}`));
      assert.equal(sha256(read), sha256(bytesOf(name, i)), `${folder}/file ${i} on ${reader}`);
    }
  };

  it('have the log of their leader, and one leads with all changes when the node of the leader is lost', async () => {
    write('b', 30);
    write('c', 30);
    write('a', 10);
    writeFileSync(join(mounts.b, 'large'), Buffer.alloc(9 * MiB, 'large'));
    // The bytes of this one are on b, too.
    assert.equal(sha256(readFileSync(join(mounts.b, 'of a', 'file 9'))), sha256(bytesOf('a', 9)));
    await followedBy('b', 'b', 'c');
    const { id, epoch } = await volume('b');
    const began = Date.now();
    await cluster.agent('a').kill();
    rmSync(join(cluster.agent('a').cacheFolder, 'volumes', id), { recursive: true });
    for (const tail of readdirSync(tailsFolder(cluster.folder)).filter((name) => name.startsWith(id)))
      rmSync(join(tailsFolder(cluster.folder), tail));
    await ledBy('b', 'b', 'c');
    assert.ok(Date.now() - began < takeoverMs, `a follower led after ${Date.now() - began} ms`);
    assert.ok((await volume('b')).epoch > epoch);
    for (const reader of ['b', 'c'] as const) {
      check(reader, 'b', 30);
      check(reader, 'c', 30);
      assert.equal(readdirSync(join(mounts[reader], 'of a')).length, 10);
      for (let i = 0; i < 9; i++)
        assert.throws(() => readFileSync(join(mounts[reader], 'of a', `file ${i}`)), { code: 'ENOENT' });
      assert.equal(sha256(readFileSync(join(mounts[reader], 'of a', 'file 9'))), sha256(bytesOf('a', 9)));
    }
    assert.equal(sha256(readFileSync(join(mounts.c, 'large'))), sha256(Buffer.alloc(9 * MiB, 'large')));
    write('c', 5, 'after');
    check('b', 'c', 5, 'after');
  });

  it('get the log anew when they return, and lead in their turn', async () => {
    const { leader } = await volume('b');
    const other: Name = leader === 'b' ? 'c' : 'b';
    await cluster.agent('a').start();
    await followedBy(other, ...['a', other].sort());
    assert.equal((await volume('a')).leader, leader);
    write('a', 5, 'of a again');
    await followedBy(other, ...['a', other].sort());
    assert.equal((await cluster.agent(leader).stop()).code, 0);
    await ledBy('a', 'a', other);
    await cluster.agent(leader).start();
    for (const reader of names) {
      check(reader, 'b', 30);
      check(reader, 'c', 30);
      check(reader, 'c', 5, 'after');
      check(reader, 'a', 5, 'of a again');
    }
  });
});
