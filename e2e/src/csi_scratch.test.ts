import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { bytesOf, MiB, needsMounts, sha256, until } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';
import { CsiNode } from './csi_node.ts';

describe('scratch volumes of pods, by the driver and real agents', () => {
  const bytes = bytesOf(52, 9 * MiB + 1);
  let cluster: Cluster;
  let node: CsiNode;
  /** Where another node has the volume. */
  let other: string;

  before(async function () {
    needsMounts(this);
    cluster = await Cluster.start([]);
    await cluster.startHolder(['--volumes', CsiNode.volumesDirectory(cluster)]);
    await cluster.add('a', { flags: ['--volumes-directory', CsiNode.volumesDirectory(cluster)] });
    await cluster.add('b');
    node = await CsiNode.start(cluster, 'a');
    await cluster.json('b', 'volume', 'create', 'kv', '--size', '64Mi');
    other = join(cluster.folder, 'other');
    mkdirSync(other);
    await cluster.json('b', 'mount', 'volume:kv', other);
  });
  after(async () => {
    await node?.end('SIGKILL');
    await cluster?.close();
  });
  const path = (pod: string, name: string) => join(node.target(pod), name);

  it('are written by a pod, and read by another node and another pod', async () => {
    await node.publishWritable('writer', 'kv', { group: '2000' });
    const root = statSync(node.target('writer'));
    assert.deepEqual([root.gid, root.mode & 0o2070], [2000, 0o2070]);
    writeFileSync(path('writer', 'block'), bytes);
    assert.equal(sha256(readFileSync(join(other, 'block'))), sha256(bytes));
    await node.publishWritable('reader', 'kv', { readOnly: true });
    assert.equal(sha256(readFileSync(path('reader', 'block'))), sha256(bytes));
    assert.throws(() => writeFileSync(path('reader', 'x'), ''), { code: 'EROFS' });
    assert.deepEqual(await node.sizes('reader'), await node.sizes('writer'));
    const [used = 0n] = await node.sizes('writer');
    assert.ok(used >= BigInt(bytes.length), `${used} B`);
  });

  it('are written on while driver and agent are replaced', async () => {
    await cluster.agent('a').kill();
    await node.end('SIGKILL');
    await cluster.agent('a').start();
    await node.begin();
    writeFileSync(path('writer', 'later'), 'later');
    await until('the other node reads it', () => readFileSync(join(other, 'later'), 'utf8') === 'later');
    await node.publishWritable('writer', 'kv', { group: '2000' });
    writeFileSync(path('writer', 'later'), 'again');
  });

  it('are deleted when no pod has them', async () => {
    await cluster.json('b', 'umount', other);
    await node.unpublish('reader');
    await assert.rejects(cluster.json('b', 'volume', 'delete', 'kv'), /mounted on a at .*fuse-volume:kv/);
    await node.unpublish('writer');
    await cluster.json('b', 'volume', 'delete', 'kv');
    assert.deepEqual(await cluster.json('a', 'volume', 'ls'), { volumes: [] });
  });
});
