import assert from 'node:assert/strict';
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { MiB, needsMounts, sha256, until } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';

interface Volume {
  state: string;
  epoch: number;
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
  const restart = async (agent: string) => {
    await cluster.agent(agent).kill();
    await cluster.agent(agent).start();
  };

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
    writeFileSync(join(a, 'one writer'), 'mine');
    const writer = openSync(join(a, 'one writer'), 'r+');
    assert.throws(() => openSync(join(b, 'one writer'), 'r+'), { code: 'EBUSY' });
    closeSync(writer);
    writeFileSync(join(b, 'one writer'), 'now mine');
    assert.equal(readFileSync(join(a, 'one writer'), 'utf8'), 'now mine');
  });

  it('opens an empty file that the other node has open, as lock files are', () => {
    const first = openSync(join(a, 'lock'), 'a+');
    const second = openSync(join(b, 'lock'), 'w+');
    assert.throws(() => writeSync(second, 'b'), { code: 'EBUSY' });
    closeSync(first);
    writeSync(second, 'pid of b');
    closeSync(second);
    assert.equal(readFileSync(join(a, 'lock'), 'utf8'), 'pid of b');
  });

  for (const writing of ['a', 'b']) {
    it(`loses nothing when agent ${writing}, which writes, is killed and started again`, async () => {
      const [mount, other] = writing === 'a' ? [a, b] : [b, a];
      writeFileSync(join(mount, `published by ${writing}`), Buffer.alloc(MiB, 'p'));
      await using writer = await Writer.open(join(mount, `open by ${writing}`));
      await writer.write('x', 5 * MiB);
      const { epoch } = await volume();
      await cluster.agent(writing).kill();
      await writer.write('y', MiB);
      await cluster.agent(writing).start();
      await writer.close();
      const expected = Buffer.concat([Buffer.alloc(5 * MiB, 'x'), Buffer.alloc(MiB, 'y')]);
      assert.equal(sha256(readFileSync(join(other, `open by ${writing}`))), sha256(expected));
      assert.equal(sha256(readFileSync(join(other, `published by ${writing}`))), sha256(Buffer.alloc(MiB, 'p')));
      if (writing === 'a') assert.ok((await volume()).epoch > epoch, 'the next agent leads in a new term');
    });
  }

  it('keeps every file that a program has renamed while the agent that leads is killed again and again', async () => {
    const count = 40;
    const script = `
      const fs = require('node:fs');
      const [folder, count] = process.argv.slice(1);
      const again = (work) => { for (;;) try { return work(); } catch (error) { if (error.code !== 'ETIMEDOUT') throw error; } };
      for (let i = 0; i < Number(count); ++i) {
        again(() => fs.writeFileSync(folder + '/new', String(i).repeat(100_000)));
        again(() => { if (fs.existsSync(folder + '/new')) fs.renameSync(folder + '/new', folder + '/file ' + i); });
        console.log(i);
      }`;
    mkdirSync(join(a, 'renamed'));
    const program = spawn(process.execPath, ['-e', script, join(a, 'renamed'), String(count)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const ended = once(program, 'close');
    let done = 0;
    createInterface(program.stdout).on('line', () => done++);
    for (const before of [5, 15, 25]) {
      await until(`${before} files are there`, () => done >= before);
      await restart('a');
    }
    assert.deepEqual(await ended, [0, null]);
    for (let i = 0; i < count; ++i) {
      assert.equal(readFileSync(join(b, 'renamed', `file ${i}`), 'utf8'), String(i).repeat(100_000));
    }
    assert.equal(readdirSync(join(b, 'renamed')).length, count);
  });
});

/**
 * A process of its own that has a file open for writing: a fork of the test closes the file in its child, and would wait
 * for the agent that it is about to start.
 */
class Writer {
  readonly #process: ChildProcessByStdio<Writable, Readable, null>;
  readonly #lines: AsyncIterator<string>;

  private constructor(path: string) {
    const script = `
      const fs = require('node:fs');
      const file = fs.openSync(process.argv[1], 'w');
      console.log('opened');
      require('node:readline').createInterface(process.stdin).on('line', (line) => {
        const [text, count] = line.split(' ');
        if (text === 'close') fs.closeSync(file); else fs.writeSync(file, Buffer.alloc(Number(count), text));
        console.log('done');
      });`;
    this.#process = spawn(process.execPath, ['-e', script, path], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#lines = createInterface(this.#process.stdout)[Symbol.asyncIterator]();
  }

  static async open(path: string): Promise<Writer> {
    const writer = new Writer(path);
    assert.equal((await writer.#lines.next()).value, 'opened');
    return writer;
  }

  write(text: string, count: number): Promise<void> {
    return this.#ask(`${text} ${count}`);
  }

  close(): Promise<void> {
    return this.#ask('close');
  }

  async #ask(line: string): Promise<void> {
    this.#process.stdin.write(`${line}\n`);
    assert.equal((await this.#lines.next()).value, 'done');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#process, 'close');
    this.#process.stdin.end();
    await ended;
  }
}
