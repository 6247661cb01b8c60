import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync, readFileSync, statfsSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { MiB, needsMounts, until } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';

const limit = 100 * MiB;
const fileBytes = 2 * MiB;
const files = 512;

/** Reads files of a folder, of which each has one value of 32 bits throughout, until it is told to stop. */
const reader = `
  const { readdirSync, readFileSync } = require('node:fs');
  const { parentPort, workerData } = require('node:worker_threads');
  const counts = { read: 0, gone: 0, wrong: [] };
  let stopped = false;
  parentPort.once('message', () => { stopped = true; });
  const once = () => {
    const names = readdirSync(workerData.folder);
    const name = names[counts.read % Math.max(1, names.length)];
    try {
      if (name === undefined) return;
      const bytes = readFileSync(workerData.folder + '/' + name);
      const right = bytes.length === workerData.fileBytes && bytes.equals(Buffer.alloc(bytes.length, bytes.subarray(0, 4)));
      if (right) counts.read += 1;
      else if (bytes.length !== 0) counts.wrong.push(name + ': ' + bytes.length);
    } catch (error) {
      if (error.code === 'ENOENT') counts.gone += 1;
      else counts.wrong.push(name + ': ' + error.code);
    }
  };
  const loop = () => {
    once();
    if (stopped) parentPort.postMessage(counts);
    else setImmediate(loop);
  };
  loop();
`;

interface Counts {
  read: number;
  gone: number;
  wrong: string[];
}

interface Volume {
  state: string;
  usedBytes: number;
  evictedFiles: number;
  evictedYoungFiles: number;
}

describe('a scratch volume of 100 MiB', () => {
  let cluster: Cluster;
  before(async function () {
    needsMounts(this);
    cluster = await Cluster.start(['a', 'b'], { holder: true });
    await cluster.allReady();
  });
  after(async () => cluster?.close());

  const volume = () => cluster.json<Volume>('a', 'volume', 'show', 'kv');

  it('takes ten times its size under readers of both nodes, and no write fails', async () => {
    await cluster.json('a', 'volume', 'create', 'kv', '--size', '100MiB');
    await until('an agent leads it', async () => (await volume()).state === 'Ready');
    const folders = ['a', 'b'].map((node) => cluster.mountPoint(node));
    for (const node of ['a', 'b']) await cluster.json(node, 'mount', 'volume:kv', cluster.mountPoint(node));
    const [folder = ''] = folders;
    const readers = folders.map((each) => new Worker(reader, { eval: true, workerData: { folder: each, fileBytes } }));
    const value = Buffer.alloc(4);
    for (let index = 0; index < files; index++) {
      value.writeUInt32LE(index + 1);
      writeFileSync(join(folder, `block-${index}`), Buffer.alloc(fileBytes, value));
      // The readers have a turn.
      await new Promise(setImmediate);
    }
    for (const each of readers) {
      each.postMessage('stop');
      const [counts] = (await once(each, 'message')) as [Counts];
      assert.deepEqual(counts.wrong, []);
      assert.ok(counts.read > 0, `${counts.read} read, ${counts.gone} gone`);
      await each.terminate();
    }
    const left = readdirSync(folder);
    assert.ok(left.length >= 1 && left.length <= limit / fileBytes, `${left.length} files`);
    assert.equal(statSync(join(folder, `block-${files - 1}`)).size, fileBytes);
    assert.equal(readFileSync(join(folder, `block-${files - 1}`)).readUInt32LE(), files);
    await until('the bytes of the others are gone', async () => (await volume()).usedBytes <= limit);
  });

  it('keeps what it has when the leader starts again, and goes on evicting', async () => {
    const [folder = ''] = ['a'].map((node) => cluster.mountPoint(node));
    const before = readdirSync(folder).sort();
    await cluster.agent('a').kill();
    await cluster.agent('a').start();
    await until('it leads again', async () => (await volume()).state === 'Ready');
    assert.deepEqual(readdirSync(folder).sort(), before);
    for (let index = 0; index < 60; index++) writeFileSync(join(folder, `later-${index}`), Buffer.alloc(fileBytes, 7));
    const left = readdirSync(folder);
    assert.ok(left.length <= limit / fileBytes, `${left.length} files`);
    assert.ok(left.includes('later-59'));
  });

  it('counts what went, and holds more on both nodes once it is larger', async () => {
    await until('the leader reports', async () => (await volume()).evictedFiles >= 60 - limit / fileBytes);
    const { evictedFiles, evictedYoungFiles } = await volume();
    assert.equal(evictedYoungFiles, evictedFiles, 'this test takes less than an hour');
    await cluster.json('b', 'volume', 'resize', 'kv', '200MiB');
    for (const node of ['a', 'b']) {
      await until(`the mount of ${node} is larger`, () => {
        const { blocks, bsize } = statfsSync(cluster.mountPoint(node));
        return blocks * bsize === 2 * limit;
      });
    }
    const folder = cluster.mountPoint('b');
    const before = readdirSync(folder).length;
    for (let index = 0; index < 40; index++) writeFileSync(join(folder, `more-${index}`), Buffer.alloc(fileBytes, 8));
    assert.equal(readdirSync(folder).length, before + 40);
    assert.notEqual((await cluster.hearth('a', 'volume', 'resize', 'kv', '100MiB')).code, 0, 'it does not shrink');
  });

  it('refuses a file that is larger than it, and keeps the others', () => {
    const folder = cluster.mountPoint('a');
    const before = readdirSync(folder).length;
    assert.throws(() => writeFileSync(join(folder, 'large'), Buffer.alloc(2 * limit + 1)), { code: 'ENOSPC' });
    assert.ok(readdirSync(folder).length >= before);
  });
});
