import assert from 'node:assert/strict';
import {
  closeSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { MiB, needsMounts, sha256, until } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';

interface Volume {
  state: string;
  usedBytes: number;
}

/** One scratch volume, mounted on two agents: `a` leads it. */
describe('a scratch volume', () => {
  let cluster: Cluster;
  let a: string;
  let b: string;

  before(async function () {
    needsMounts(this);
    cluster = await Cluster.start(['a', 'b'], { holder: true });
    await cluster.allReady();
    await cluster.json('a', 'volume', 'create', 'kv', '--kind', 'scratch', '--size', '10Gi');
    await until('an agent leads it', async () => (await volume()).state === 'Ready');
    a = cluster.mountPoint('a');
    b = cluster.mountPoint('b');
    await cluster.json('a', 'mount', 'volume:kv', a);
    await cluster.json('b', 'mount', 'volume:kv', b);
  });
  after(async () => cluster?.close());

  const volume = () => cluster.json<Volume>('b', 'volume', 'show', 'kv');

  it('gives the bytes of a file that was created, written, closed and renamed to the other node', async () => {
    const bytes = Buffer.alloc(9 * MiB + 17, 'hearth');
    writeFileSync(join(a, 'new'), bytes);
    renameSync(join(a, 'new'), join(a, 'name'));
    assert.deepEqual(readdirSync(b), ['name']);
    assert.equal(sha256(readFileSync(join(b, 'name'))), sha256(bytes));
    writeFileSync(join(b, 'of b'), 'small');
    assert.equal(readFileSync(join(a, 'of b'), 'utf8'), 'small');
    await until('the leader reports its files', async () => (await volume()).usedBytes === bytes.length + 5);
  });

  it('keeps the bytes under an open reader while the file is published again', () => {
    writeFileSync(join(a, 'versions'), 'first');
    const reader = openSync(join(b, 'versions'), 'r');
    const before = Buffer.alloc(5);
    readSync(reader, before, 0, 5, 0);
    writeFileSync(join(a, 'versions'), 'later');
    const again = Buffer.alloc(5);
    readSync(reader, again, 0, 5, 0);
    closeSync(reader);
    assert.deepEqual([before.toString(), again.toString()], ['first', 'first']);
    assert.equal(readFileSync(join(b, 'versions'), 'utf8'), 'later');
  });

  it('refuses a second node that opens a file for writing', () => {
    const writer = openSync(join(a, 'one writer'), 'w');
    writeSync(writer, 'mine');
    assert.throws(() => openSync(join(b, 'one writer'), 'r+'), { code: 'EBUSY' });
    closeSync(writer);
    writeFileSync(join(b, 'one writer'), 'now mine');
    assert.equal(readFileSync(join(a, 'one writer'), 'utf8'), 'now mine');
  });
});
