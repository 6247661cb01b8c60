import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { status } from '@grpc/grpc-js';
import { bytesOf, MiB, needsMounts, sha256, until, writeSample } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';
import { CsiNode } from './csi_node.ts';

describe('volumes of pods, by the driver and a real agent', () => {
  let cluster: Cluster;
  let node: CsiNode;
  let origin: string;
  let digests: Map<string, string>;
  const files = { weights: 9 * MiB + 5, 'x/config.json': 1000, empty: 0 };
  const bytes = BigInt(Object.values(files).reduce((sum, size) => sum + size, 0));

  before(async function () {
    needsMounts(this);
    cluster = await Cluster.start([]);
    await cluster.startHolder(['--volumes', CsiNode.volumesDirectory(cluster)]);
    await cluster.add('a', { flags: ['--volumes-directory', CsiNode.volumesDirectory(cluster)] });
    node = await CsiNode.start(cluster, 'a');
    origin = join(cluster.folder, 'origin');
    digests = writeSample(origin, files);
    await cluster.json('a', 'dataset', 'add', 'default.model', origin);
  });
  after(async () => {
    await node?.end('SIGKILL');
    await cluster?.close();
  });

  const verify = (pod: string, expected = digests): void => {
    for (const [path, digest] of expected) {
      assert.equal(sha256(readFileSync(join(node.target(pod), path))), digest, path);
    }
    assert.throws(() => writeFileSync(join(node.target(pod), 'new'), ''), { code: 'EROFS' });
  };
  const record = (pod: string) => node.records(cluster).get(pod);

  it('are read by FUSE while files arrive, and from the view once they are here', async () => {
    await node.publish('early', { dataset: 'model' });
    assert.equal(record('early')?.dataPath, 'fuse');
    verify('early');
    await cluster.json('a', 'warm', 'default.model');
    await node.publish('late', { dataset: 'model', cluster: 'e2e' });
    assert.equal(record('late')?.dataPath, 'view');
    verify('late');
    verify('early');
    assert.deepEqual(await node.sizes('late'), [bytes, 3n]);
  });

  it('stay readable without agent and driver, whose return takes them over', async () => {
    await cluster.agent('a').kill();
    await node.end('SIGKILL');
    verify('late');
    await node.begin();
    verify('late');
    assert.deepEqual(await node.sizes('late'), [bytes, 3n]);
    await node.publish('late', { dataset: 'model' });
    await assert.rejects(node.publish('later', { dataset: 'model' }), {
      code: status.FAILED_PRECONDITION,
      details: /the agent of StorageCluster e2e does not run on node node-1/,
    });
    await node.unpublish('late');
    assert.equal(record('late'), undefined);
    await cluster.agent('a').start();
    await node.publish('later', { dataset: 'model' });
    verify('later');
    verify('early');
  });

  it('keep their revision when the dataset gets another; new ones have the new one, or the one they name', async () => {
    const former = record('later')?.manifest ?? '';
    const other = bytesOf(77, 300_000);
    writeFileSync(join(origin, 'weights'), other);
    await cluster.json('a', 'dataset', 'add', 'default.model', origin);
    await cluster.json('a', 'warm', 'default.model');
    await node.publish('fresh', { dataset: 'model' });
    assert.notEqual(record('fresh')?.manifest, former);
    const changed = new Map(digests).set('weights', sha256(other));
    verify('fresh', changed);
    verify('later');
    await node.publish('pinned', { dataset: 'model', revision: former });
    assert.equal(record('pinned')?.manifest, former);
    verify('pinned');
  });

  it('of complete datasets are read on when agent and holder leave the node, with no mount of theirs left', async () => {
    const changed = new Map(digests).set('weights', sha256(readFileSync(join(origin, 'weights'))));
    const folder = join(CsiNode.volumesDirectory(cluster), 'mounts');
    const mounts = () => readFileSync('/proc/self/mountinfo', 'utf8').includes(` ${folder}/`);
    assert.equal((await cluster.agent('a').stop()).code, 0);
    assert.ok(mounts(), 'for the next agent');
    assert.equal((await cluster.endHolder())?.code, 0);
    assert.equal(mounts(), false);
    assert.deepEqual(readdirSync(folder), []);
    verify('later');
    verify('fresh', changed);
    await node.unpublish('pinned');
    await cluster.startHolder(['--volumes', CsiNode.volumesDirectory(cluster)]);
    await cluster.agent('a').start();
    // So that nothing of what they read is evicted.
    for (const pod of ['later', 'fresh']) {
      const view = ` ${folder}/${record(pod)?.manifest}/view `;
      await until(`${pod} is held`, () => readFileSync('/proc/self/mountinfo', 'utf8').includes(view));
    }
    await node.publish('after', { dataset: 'model' });
    verify('after', changed);
    verify('later');
  });

  it('are made again for the next pod when the holder alone was replaced', async () => {
    await cluster.endHolder();
    await cluster.startHolder(['--volumes', CsiNode.volumesDirectory(cluster)]);
    verify('later');
    await node.publish('next', { dataset: 'model' });
    assert.equal(record('next')?.dataPath, 'view');
    verify('next', new Map(digests).set('weights', sha256(readFileSync(join(origin, 'weights')))));
    await node.unpublish('next');
  });

  it('of a pod with a user namespace get a mount whose ids a container runtime can map', async () => {
    await node.publish('mapped', { dataset: 'model' });
    assert.equal(record('mapped')?.dataPath, 'view');
    node.giveUserNamespace('mapped');
    const target = ` ${node.target('mapped')} `;
    const mounts = () => readFileSync('/proc/self/mountinfo', 'utf8').split('\n');
    await until('it is bound again', () =>
      mounts().some((line) => line.includes(target) && / fuse.hearth /.test(line)),
    );
    verify('mapped', new Map(digests).set('weights', sha256(readFileSync(join(origin, 'weights')))));
    assert.equal(record('mapped')?.dataPath, 'fuse');
    await node.unpublish('mapped');
    assert.ok(!mounts().some((line) => line.includes(target)));
  });

  it('that lost agent and holder at once fail every look until they are bound again, and are read then', async () => {
    const lost = join(cluster.folder, 'lost');
    const sums = writeSample(lost, { 'weights.bin': 3 * MiB + 1, 'config.json': 777 });
    await cluster.json('a', 'dataset', 'add', 'default.lost', lost);
    await node.publish('bereft', { dataset: 'lost' });
    assert.equal(record('bereft')?.dataPath, 'fuse');
    verify('bereft', sums);
    // As a container runtime looks before it starts a container.
    const looks = () => {
      try {
        return statSync(node.target('bereft')).isDirectory();
      } catch (thrown) {
        return (thrown as NodeJS.ErrnoException).code;
      }
    };
    assert.equal(looks(), true);
    const mounts = () => readFileSync('/proc/self/mountinfo', 'utf8').split('\n');
    const barrier = () =>
      mounts().some((line) => line.includes(` ${node.target('bereft')} `) && / - fuse.hearth-lost /.test(line));
    await Promise.all([cluster.agent('a').kill(), cluster.endHolder('SIGKILL')]);
    await until('the dead mount is barred', barrier);
    assert.equal(looks(), 'ENOTCONN');
    await assert.rejects(node.publish('bereft', { dataset: 'lost' }), { code: status.UNAVAILABLE });
    verify('later');
    await cluster.startHolder(['--volumes', CsiNode.volumesDirectory(cluster)]);
    await cluster.agent('a').start();
    await until('it is bound again', () => looks() === true);
    verify('bereft', sums);
    await node.unpublish('bereft');
    assert.equal(record('bereft'), undefined);
    const removed = await cluster.hearth('a', 'dataset', 'rm', 'default.lost');
    assert.equal(removed.code, 0, removed.stderr);
  });

  it('are refused with a sentence when they cannot be had', async () => {
    await assert.rejects(node.publish('bad', { dataset: 'absent' }), {
      code: status.NOT_FOUND,
      details: /Dataset default\/absent of StorageCluster e2e cannot be published/,
    });
    await assert.rejects(node.publish('bad', { dataset: 'model', datasetNamespace: 'other' }), {
      code: status.INVALID_ARGUMENT,
    });
    await assert.rejects(node.publish('bad', { dataset: 'model', revision: 'f'.repeat(64) }), {
      code: status.NOT_FOUND,
    });
    await assert.rejects(node.publish('bad', { dataset: 'model', cluster: 'other' }), {
      code: status.FAILED_PRECONDITION,
      details: /StorageCluster other/,
    });
  });

  it('keep their dataset while a pod has one, and not a moment longer', async () => {
    const remove = () => cluster.hearth('a', 'dataset', 'rm', '--evict', 'default.model');
    for (const pod of ['early', 'later', 'fresh']) await node.unpublish(pod);
    const refused = await remove();
    assert.notEqual(refused.code, 0);
    assert.match(
      refused.stderr,
      /dataset default\.model is mounted on a by pod default\/after; unmount it or delete the pod first/,
    );
    verify('after', new Map(digests).set('weights', sha256(readFileSync(join(origin, 'weights')))));
    await node.unpublish('after');
    const removed = await remove();
    assert.equal(removed.code, 0, removed.stderr);
    assert.deepEqual(readdirSync(join(CsiNode.volumesDirectory(cluster), 'mounts')), []);
  });

  it('leave nothing behind', async () => {
    for (const pod of ['early', 'later', 'fresh', 'after', 'pinned', 'bad']) await node.unpublish(pod);
    assert.deepEqual([...node.records(cluster)], []);
    const ended = await node.end('SIGTERM');
    assert.equal(ended?.code, 0, ended?.stderr);
    await until('no pod has a mount', () => !readFileSync('/proc/self/mountinfo', 'utf8').includes(node.podsFolder));
  });
});
