import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { HearthError } from '@hearth/common';
import { elapse, until } from '@hearth/common/testing';
import { openBootClock } from './boot_clock.ts';
import { defaultSqliteLimits, SqliteDatabase } from './sqlite_database.ts';
import { SqliteStore } from './sqlite_store.ts';
import { TestBoot } from './testing/fixtures.ts';
import { WatchLog } from './testing/watch_log.ts';

describe('SqliteStore', () => {
  let folder = '';
  let path = '';
  const opened: SqliteStore[] = [];
  const open = async (options = {}): Promise<SqliteStore> => {
    const store = await SqliteStore.open(path, options);
    opened.push(store);
    return store;
  };
  const refuses = (expected: string, words: RegExp) => (thrown: unknown) => {
    assert.ok(thrown instanceof HearthError);
    assert.equal(thrown.code, expected);
    assert.match(thrown.message, words);
    return true;
  };

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'hearth-sqlite-'));
    path = join(folder, 'store.db');
  });
  afterEach(async () => {
    for (const store of opened.splice(0)) await store.close();
    rmSync(folder, { recursive: true, force: true });
  });

  it('expires leases by the boot clock only', async () => {
    const boot = new TestBoot(folder);
    const store = await open({ clock: boot.files });
    const other = await open({ clock: boot.files });
    const { lease } = await store.grantLease(10);
    const from = await store.put('k', '1', { lease });
    const log = new WatchLog(other, 'k', from);
    boot.advance(9_990);
    assert.equal((await other.get('k'))?.value, '1');
    assert.equal(await other.keepAlive(lease), 10);
    boot.advance(9_990);
    assert.equal((await store.get('k'))?.value, '1');
    boot.advance(20);
    // No call happens: the watch itself finds the expired lease.
    await until('the deletion', () => log.events.length === 2);
    assert.equal(await store.get('k'), undefined);
    await assert.rejects(store.keepAlive(lease), refuses('NotFound', /expired/));
  });

  it('expires all leases of an earlier boot, whatever its clock', async () => {
    const boot = new TestBoot(folder);
    boot.advance(1_000_000_000);
    const before = await open({ clock: boot.files });
    const { lease } = await before.grantLease(3600);
    await before.put('k', '1', { lease });
    await before.put('stays', '1');
    await before.close();
    // The machine's clock restarts at 0, so the old expiry would lie eleven days ahead.
    boot.advance(-1_000_000_000);
    boot.reboot('second');
    const after = await open({ clock: boot.files });
    assert.deepEqual(
      (await after.range('')).entries.map((entry) => entry.key),
      ['stays'],
    );
    await assert.rejects(after.keepAlive(lease), refuses('NotFound', /expired/));
  });

  it('keeps its history within the limits', async () => {
    const boot = new TestBoot(folder);
    const database = new SqliteDatabase(path, openBootClock(boot.files), {
      ...defaultSqliteLimits,
      events: 100,
      bytes: 1_000_000,
    });
    const write = (value: string): number =>
      database.transact({ compare: [], success: [{ kind: 'put', key: 'k', value }] }).revision;
    const first = write('1');
    for (let count = 0; count < 150; count++) write(String(count));
    assert.equal(database.events('k', first).kind, 'compacted');
    const recent = database.events('k', database.revision() - 40);
    assert.equal(recent.kind === 'events' && recent.events.length, 41);
    // Three values of 400 kB exceed the byte limit; the newest revision stays.
    for (let count = 0; count < 3; count++) write('x'.repeat(400_000));
    const newest = database.revision();
    assert.equal(database.events('k', newest - 2).kind, 'compacted');
    assert.equal(database.events('k', newest).kind, 'events');
    database.close();
    const file = new DatabaseSync(path);
    const kept = file
      .prepare(
        `SELECT (SELECT count(*) FROM event) = event_count AND
       (SELECT sum(length(key) + ifnull(length(value), 0) + 64) FROM event) = event_bytes AS exact FROM meta`,
      )
      .get();
    assert.equal(kept?.exact, 1, 'the counters are those of the table');
    file.close();
  });

  it('switches to the current file after a replacement, and notifies watches', async () => {
    const store = await open();
    const log = new WatchLog(store, '', await store.put('k', '1'));
    await until('the event', () => log.events.length === 1);
    for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix, { force: true });
    await log.ended;
    assert.equal(log.items.at(-1)?.kind, 'compacted');
    const other = await open();
    await other.put('new', '2');
    assert.deepEqual(
      (await store.range('')).entries.map((entry) => entry.key),
      ['new'],
    );
  });

  it('opens a file that many processes create at once', async () => {
    const stores = await Promise.all(Array.from({ length: 6 }, () => open()));
    await Promise.all(stores.map((store, index) => store.put(`k${index}`, '')));
    assert.equal((await stores[0]?.range(''))?.entries.length, 6);
  });

  it('is intact after a writer was killed', async () => {
    const program = join(import.meta.dirname, 'testing/increment.ts');
    const child = spawn(process.execPath, [program, `sqlite:${path}`, 'count', '1000000'], { stdio: 'inherit' });
    const store = await open();
    await until('some writes', async () => Number((await store.get('count'))?.value ?? 0) > 50);
    child.kill('SIGKILL');
    await once(child, 'exit');
    const entry = await store.get('count');
    assert.equal(entry?.version, Number(entry?.value));
    assert.equal(await store.put('count', 'next'), (entry?.modRevision ?? 0) + 1);
  });

  it('waits for a writer, and reports when that takes too long', async () => {
    const waiting = await open({ limits: { ...defaultSqliteLimits, busyTimeoutMs: 300_000 } });
    const blocker = new DatabaseSync(path);
    blocker.exec('BEGIN IMMEDIATE');
    const waited = waiting.put('k', '1', { deadlineMs: 300_000 });
    await elapse(200, 'the write finds the file locked');
    blocker.exec('COMMIT');
    await waited;
    const store = await open({ limits: { ...defaultSqliteLimits, busyTimeoutMs: 3_000 } });
    blocker.exec('BEGIN IMMEDIATE');
    await assert.rejects(store.put('k', '2', { deadlineMs: 300 }), refuses('DeadlineExceeded', /300 ms/));
    await assert.rejects(
      store.put('k', '3', { deadlineMs: 300_000 }),
      refuses('Unavailable', /locked.*nothing was written/),
    );
    blocker.exec('COMMIT');
    blocker.close();
    assert.equal((await store.get('k'))?.value, '1');
  });

  it('refuses foreign files, with name and reason', async () => {
    writeFileSync(path, 'no database, but long enough to be taken for one '.repeat(50));
    await assert.rejects(open(), refuses('InvalidArgument', /store\.db: file is not a database/));
    path = join(folder, 'other.db');
    const foreign = new DatabaseSync(path);
    foreign.exec('CREATE TABLE t (a)');
    foreign.close();
    await assert.rejects(open(), refuses('InvalidArgument', /other\.db is a database of another program/));
    path = join(folder, 'newer.db');
    await (await open()).close();
    const newer = new DatabaseSync(path);
    newer.exec('PRAGMA user_version = 9');
    newer.close();
    await assert.rejects(open(), refuses('Unsupported', /layout 9/));
    path = folder;
    await assert.rejects(open(), refuses('IoError', /EISDIR/));
    path = '/proc/no/store.db';
    await assert.rejects(open(), refuses('IoError', /cannot be opened/));
  });

  it('creates folder and file for its user only', async () => {
    path = join(folder, 'a/b/store.db');
    const store = await open();
    await store.put('k', '1');
    for (const suffix of ['', '-wal']) assert.equal(statSync(path + suffix).mode & 0o777, 0o600);
  });
});
