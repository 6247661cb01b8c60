import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { bytesOf, MiB, needsMounts, sha256, until } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';

interface Shown {
  state: string;
  message: string;
  manifest: string;
}

/** A trainer on `a` writes into a scratch volume; `b` and `c` read it as a dataset. */
describe('a dataset of a scratch volume', () => {
  let cluster: Cluster;
  let folder: string;

  before(async function () {
    needsMounts(this);
    cluster = await Cluster.start(['a', 'b', 'c'], { holder: true });
    await cluster.allReady();
    await cluster.json('a', 'volume', 'create', 'kv', '--kind', 'scratch', '--size', '10Gi');
    await until('an agent leads it', async () => {
      return (await cluster.json<{ state: string }>('b', 'volume', 'show', 'kv')).state === 'Ready';
    });
    const mounted = cluster.mountPoint('a');
    await cluster.json('a', 'mount', 'volume:kv', mounted);
    folder = join(mounted, 'models', 'a');
    mkdirSync(folder, { recursive: true });
  });
  after(async () => cluster?.close());

  /** As a trainer does: a reader sees the whole file, or none. */
  const save = (name: string, bytes: Buffer): void => {
    writeFileSync(join(folder, '.part'), bytes);
    renameSync(join(folder, '.part'), join(folder, name));
  };
  const add = (agent: string, name: string, path = 'models/a') =>
    cluster.json<{ unchanged: boolean; dataset: Shown }>(agent, 'dataset', 'add', name, `volume://kv/${path}`);
  /** Of the volume's files on the node of their writer. */
  const sealedSizes = (): number[] => {
    const volumes = join(cluster.folder, 'cache-a/volumes');
    return readdirSync(volumes, { recursive: true, encoding: 'utf8' })
      .filter((path) => dirname(path).endsWith('/sealed'))
      .map((path) => statSync(join(volumes, path), { throwIfNoEntry: false })?.size ?? 0);
  };
  const show = (name: string) => cluster.json<Shown>('c', 'dataset', 'show', name);

  it('is read from the node of its writer, warmed by others, and follows a rename when it is added again', async () => {
    const first = bytesOf(1, 9 * MiB + 5);
    const second = bytesOf(2, 9 * MiB + 5);
    save('weights', first);
    save('config.json', Buffer.from('{}'));
    const before = await add('b', 'model');
    const old = cluster.mountPoint('old');
    await cluster.json('c', 'mount', 'model', old);
    assert.equal(sha256(readFileSync(join(old, 'weights'))), sha256(first));
    assert.equal(readFileSync(join(old, 'config.json'), 'utf8'), '{}');
    assert.equal((await add('c', 'model')).unchanged, true);

    save('weights', second);
    const after = await add('a', 'model');
    assert.equal(after.unchanged, false);
    assert.notEqual(after.dataset.manifest, before.dataset.manifest);
    await cluster.json('a', 'warm', 'model');
    const renewed = cluster.mountPoint('renewed');
    await cluster.json('b', 'mount', 'model', renewed);
    assert.equal(sha256(readFileSync(join(renewed, 'weights'))), sha256(second));
    assert.equal(sha256(readFileSync(join(old, 'weights'))), sha256(first), 'a mount keeps its revision');
  });

  it('fails as a whole when the volume no longer has bytes that no node has', async () => {
    save('gone', bytesOf(3, MiB));
    await add('a', 'lost', 'models/a/gone');
    // A node that reads the bytes before they have gone keeps a copy.
    const hasBytes = () => sealedSizes().includes(MiB);
    await until('the node of their writer has sealed the bytes', hasBytes);
    rmSync(join(folder, 'gone'));
    await until('the bytes leave the node of their writer', () => !hasBytes());
    assert.equal((await cluster.hearth('b', 'cat', 'lost', 'gone')).code, 10);
    const { state, message } = await show('lost');
    assert.equal(state, 'Failed', message);
    assert.match(message, /gone.*volume kv has no longer this content/);
    save('gone', bytesOf(4, MiB));
    assert.equal((await add('a', 'lost', 'models/a/gone')).dataset.state, 'Ready');
    assert.equal((await cluster.hearth('b', 'cat', 'lost', 'gone')).code, 0);
  });

  it('is read on while the agent that leads the volume is away', async () => {
    const bytes = bytesOf(5, 5 * MiB);
    save('held', bytes);
    await add('b', 'held', 'models/a/held');
    await cluster.json('b', 'warm', 'held', '--node', 'b');
    await cluster.agent('a').kill();
    const mounted = cluster.mountPoint('held');
    await cluster.json('c', 'mount', 'held', mounted);
    assert.equal(sha256(readFileSync(join(mounted, 'held'))), sha256(bytes));
    await cluster.agent('a').start();
    await until(
      'the next term has begun',
      async () => (await cluster.hearth('b', 'dataset', 'add', 'late', 'volume://kv/models')).code === 0,
    );
  });

  it('keeps what its nodes hold when its volume is deleted', async () => {
    save('kept', bytesOf(6, MiB));
    await add('b', 'kept', 'models/a/kept');
    await cluster.json('b', 'warm', 'kept', '--node', 'b');
    await cluster.json('a', 'volume', 'delete', 'kv', '--force');
    assert.equal((await cluster.hearth('c', 'cat', 'kept', 'kept')).code, 0);
    const again = await cluster.hearth('b', 'dataset', 'add', 'kept', 'volume://kv/models/a/kept');
    assert.equal(again.code, 3, again.stderr);
    assert.match(again.stderr, /no volume kv/);
  });
});
