import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { run, until } from '@hearth/common/testing';
import { Reader } from './readers.ts';
import { readerProgram } from './stage.ts';

describe('readers that compare every byte', () => {
  let folder: string;
  let readers: Reader[];
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'hearth-readers-'));
    readers = [];
  });
  afterEach(async () => {
    for (const reader of readers) {
      reader.stop();
      await reader.end(60_000);
    }
    rmSync(folder, { recursive: true });
  });
  const read = (file: string, seconds = 60): Reader => {
    const reader = new Reader(file, 'read', seconds, [`${join(folder, file)}=1`], () => undefined);
    readers.push(reader);
    return reader;
  };

  it('report how far they are, and how long one read was waited for', async () => {
    assert.equal((await run(readerProgram, ['write', '1', '5000000', join(folder, 'whole')])).code, 0);
    execFileSync('mkfifo', [join(folder, 'hangs')]);
    const [whole, hanging] = [read('whole'), read('hangs')];
    await until('bytes', () => whole.bytes > 5_000_000);
    await until('one read is waited for', () => hanging.longestWaitMs >= 3_000);
    const before = whole.bytes;
    await until('more', () => whole.bytes > before);
    assert.equal(hanging.bytes, 0);
    assert.ok(hanging.longestWaitMs >= 3_000, `${hanging.longestWaitMs} ms`);
    assert.equal(hanging.ended, false);
  });

  it('know that they have ended before their time', async () => {
    const reader = read('nothing', 1);
    await reader.end(60_000);
    assert.deepEqual([reader.ended, reader.failure], [true, undefined]);
    assert.ok(reader.longestWaitMs >= 1_000, 'errors are no bytes');
    const killed = read('nothing');
    killed.kill();
    await until('it has ended', () => killed.ended);
    assert.equal(killed.failure, 'it ended with SIGKILL');
  });
});
