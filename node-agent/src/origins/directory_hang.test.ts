import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { HearthError } from '@hearth/common';
import { FrozenFuse, TemporaryFolder, TestClock, until } from '@hearth/common/testing';
import { DirectoryCalls } from './directory_calls.ts';
import { DirectoryOrigin } from './directory_origin.ts';
import { DirectoryPlaces } from './directory_places.ts';
import { listAll } from './testing/list_all.ts';

const stallMs = 30_000;
const never = new AbortController().signal;

/** Child processes that work on directories. */
async function processes(): Promise<number> {
  const children = (await readFile(`/proc/self/task/${process.pid}/children`, 'utf8')).split(' ').filter(Boolean);
  const lines = await Promise.all(children.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')));
  return lines.filter((line) => line.includes('directory_child')).length;
}

const codeOf = (call: Promise<unknown>): Promise<string> =>
  call.then(
    () => 'none',
    (thrown) => HearthError.from(thrown).code,
  );

describe('DirectoryOrigin on a file system that does not answer', () => {
  let folder: TemporaryFolder;
  let fuse: FrozenFuse | undefined;
  let clock: TestClock;
  let calls: DirectoryCalls;

  function open(path: string, allowed?: string[]): DirectoryOrigin {
    return new DirectoryOrigin({ path: folder.file(path), unusableNames: 'Fail', allowed, calls });
  }

  beforeEach(async function () {
    clock = new TestClock();
    calls = new DirectoryCalls({ clock });
    folder = new TemporaryFolder('hang');
    mkdirSync(folder.file('well'));
    writeFileSync(folder.file('well/x'), 'x');
    fuse = await FrozenFuse.start(this, folder.file('dead'));
    symlinkSync(folder.file('dead'), folder.file('dead-by-link'));
  });
  afterEach(async () => {
    calls.close();
    await fuse?.stop();
    fuse = undefined;
    await folder.remove();
  });

  it('blocks neither the event loop nor other threads, and every request ends', async () => {
    const allowed = [folder.path];
    // More listings than this process has threads for file and name lookups.
    const listings = Array.from({ length: 6 }, () => codeOf(listAll(open('dead'))));
    const bases = ['dead/one', 'dead/two', 'dead-by-link/model'].map((path) =>
      codeOf(Promise.resolve(open(path, allowed).base())),
    );
    const byte = { index: 0, path: 'x', contentKey: '', validator: '' };
    const reading = codeOf(open('dead').readByte(byte));
    await until(async () => (await processes()) >= 4);
    // Directories elsewhere still work.
    assert.equal((await listAll(open('well'))).length, 1);
    assert.equal((await open('well', allowed).base())?.below, folder.path);
    await open('well').readByte(byte);
    await readFile(folder.file('well/x'));
    let ended = false;
    const all = Promise.all([...listings, ...bases, reading]).finally(() => {
      ended = true;
    });
    await until(async () => {
      assert.ok((await processes()) <= 6, 'those that hang are bounded');
      await clock.advance(stallMs);
      return ended;
    });
    for (const code of await all) assert.match(code, /^(DeadlineExceeded|Unavailable)$/);
    await until(async () => (await processes()) === 0);
  });

  it('names the hanging file system and the next step', async () => {
    const listing = assert.rejects(listAll(open('dead')), {
      code: 'DeadlineExceeded',
      message: /dead: its file system has not answered for 30 s; check its server/,
    });
    await until(async () => (await processes()) === 1);
    await clock.advance(stallMs);
    await listing;
  });

  it('returns at once when the caller cancels', async () => {
    const stop = new AbortController();
    const listing = codeOf(listAll(open('dead'), stop.signal));
    await until(async () => (await processes()) === 1);
    stop.abort();
    assert.equal(await listing, 'Cancelled');
    await until(async () => (await processes()) === 0);
  });
});

describe('DirectoryCalls', () => {
  /** A process in a call that the kernel does not interrupt, even when killed. */
  class Held extends EventEmitter {
    readonly connected = true;
    send(): void {}
    kill(): void {}
    disconnect(): void {}
    ref(): void {}
    unref(): void {}
  }

  it('bound the number of processes that cannot be killed', async () => {
    const clock = new TestClock();
    const held: Held[] = [];
    const start = () => {
      held.push(new Held());
      return held.at(-1) as unknown as ChildProcess;
    };
    const calls = new DirectoryCalls({ clock, start });
    const origin = new DirectoryOrigin({ path: '/x', unusableNames: 'Fail', allowed: undefined, calls });
    const codes: string[] = [];
    for (let turn = 0; turn < 4; turn++) {
      const asked = codeOf(listAll(origin)).then((code) => codes.push(code));
      await until(async () => {
        await clock.advance(stallMs);
        return codes.length === turn + 1;
      });
      await asked;
    }
    assert.deepEqual(codes, ['DeadlineExceeded', 'DeadlineExceeded', 'Unavailable', 'Unavailable']);
    assert.equal(held.length, 2);
    held[0]?.emit('exit', null, 'SIGKILL');
    const after = codeOf(listAll(origin));
    await until(() => held.length === 3);
    held[2]?.emit('message', { kind: 'listed', tree: { warnings: [], followed: false } });
    assert.equal(await after, 'none');
  });

  it('keep a slot for one more tree when hanging trees have taken all', async () => {
    const clock = new TestClock();
    const places = new DirectoryPlaces({ ofTree: 2, inAll: 4, whenHanging: 6, stallMs }, clock);
    for (const tree of ['a', 'a', 'b', 'b', 'c', 'd']) await places.take(tree, never);
    const refused = codeOf(places.take('e', never));
    const waiting = codeOf(places.take('c', never));
    await clock.advance(stallMs - 1);
    places.moved('c');
    await clock.advance(1);
    assert.equal(await refused, 'Unavailable');
    for (const tree of ['a', 'b', 'd']) places.give(tree);
    assert.equal(await waiting, 'none', 'it got on');
  });
});
