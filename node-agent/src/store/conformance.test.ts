import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { HearthError } from '@hearth/common';
import { openStore, type Store, type StoreEvent, storeLimits } from './index.ts';
import { etcdFixture, eventually, type StoreFixture, sqliteFixture } from './testing/fixtures.ts';
import { WatchLog } from './testing/watch_log.ts';

const code = (expected: string) => (thrown: unknown) => thrown instanceof HearthError && thrown.code === expected;
const put = (key: string, value: string) => ({ kind: 'put', key, value }) as const;

/** What every store must do alike; run against each kind. */
function conformance(fixture: StoreFixture): void {
  describe(`store: ${fixture.name}`, () => {
    let address = '';
    let store: Store;
    const opened: Store[] = [];
    const open = async (): Promise<Store> => {
      const one = await openStore(address);
      opened.push(one);
      return one;
    };

    before(async function () {
      this.timeout(300_000);
      const missing = await fixture.start();
      if (missing === undefined) return;
      console.log(`      skipped: ${missing}`);
      this.skip();
    });
    after(() => fixture.stop());
    beforeEach(async () => {
      address = fixture.freshAddress();
      store = await open();
    });
    afterEach(async () => {
      for (const one of opened.splice(0)) await one.close();
    });

    it('counts revisions, versions and creations of keys', async () => {
      const first = await store.put('k', '{"a":1}');
      const second = await store.put('k', '{"a":2}');
      assert.equal(second, first + 1);
      assert.deepEqual(await store.get('k'), {
        key: 'k',
        value: '{"a":2}',
        createRevision: first,
        modRevision: second,
        version: 2,
        lease: undefined,
      });
      assert.equal(await store.delete('k'), true);
      assert.equal(await store.delete('k'), false);
      assert.equal(await store.get('k'), undefined);
      assert.equal(await store.revision(), second + 1, 'deleting what is not there changes nothing');
      const again = await store.put('k', '3');
      const entry = await store.get('k');
      assert.equal(entry?.createRevision, again);
      assert.equal(entry?.version, 1);
    });

    it('keeps every value as it was', async () => {
      const values = ['', '\0', 'a\0b', 'ÿ€𝄞', '\ufeff{}', 'x'.repeat(storeLimits.transactionBytes - 10)];
      for (const [index, value] of values.entries()) await store.put(`v${index}`, value);
      for (const [index, value] of values.entries()) assert.equal((await store.get(`v${index}`))?.value, value);
    });

    it('orders keys by bytes and ends prefixes where they end', async () => {
      // By UTF-16 units \u{1d11e} would come before \uffff.
      const keys = [
        'a',
        'a/',
        'a/b',
        'a0',
        'b',
        'ÿ',
        'ÿ/x',
        'Ā',
        '\u{ffff}',
        '\u{ffff}z',
        '\u{1d11e}',
        '\u{10ffff}',
        '\u{10ffff}\u{10ffff}',
      ];
      for (const key of keys.toReversed()) await store.put(key, key);
      const names = async (prefix: string) => (await store.range(prefix)).entries.map((entry) => entry.key);
      assert.deepEqual(await names(''), keys);
      assert.deepEqual(await names('a/'), ['a/', 'a/b']);
      assert.deepEqual(await names('ÿ'), ['ÿ', 'ÿ/x']);
      assert.deepEqual(await names('\u{ffff}'), ['\u{ffff}', '\u{ffff}z']);
      assert.deepEqual(await names('\u{10ffff}'), ['\u{10ffff}', '\u{10ffff}\u{10ffff}']);
      assert.deepEqual(await names('nothing'), []);
    });

    it('reads a range larger than a page at one revision', async () => {
      const keys = Array.from({ length: 1100 }, (_, index) => `n/${String(index).padStart(5, '0')}`);
      for (let from = 0; from < keys.length; from += 100) {
        await store.transact({ compare: [], success: keys.slice(from, from + 100).map((key) => put(key, '1')) });
      }
      const { entries, revision } = await store.range('n/');
      assert.deepEqual(
        entries.map((entry) => entry.key),
        keys,
      );
      assert.equal(revision, await store.revision());
    });

    it('does one branch of a transaction, whole, as one revision', async () => {
      const start = await store.revision();
      const made = await store.transact({
        compare: [{ key: 'a', exists: false }],
        success: [put('a', '1'), put('b', '1'), put('b/c', '1')],
      });
      assert.deepEqual(made, { succeeded: true, revision: start + 1, deleted: [0, 0, 0] });
      const holds = [
        { key: 'a', exists: true },
        { key: 'a', modRevision: start + 1 },
        { key: 'a', createRevision: start + 1 },
        { key: 'a', value: '1' },
        { key: 'none', modRevision: 0 },
      ];
      const fails = [
        { key: 'a', exists: false },
        { key: 'a', modRevision: start },
        { key: 'a', createRevision: 0 },
        { key: 'a', value: '2' },
        { key: 'none', value: '' },
      ];
      for (const compare of holds)
        assert.equal(
          (await store.transact({ compare: [compare], success: [] })).succeeded,
          true,
          JSON.stringify(compare),
        );
      for (const compare of fails)
        assert.equal(
          (await store.transact({ compare: [compare], success: [] })).succeeded,
          false,
          JSON.stringify(compare),
        );
      assert.equal(await store.revision(), start + 1, 'a transaction that changes nothing is no revision');
      const failed = await store.transact({
        compare: [...holds, { key: 'b', value: 'other' }],
        success: [put('a', 'wrong')],
        failure: [{ kind: 'deletePrefix', prefix: 'b' }, put('c', '1'), { kind: 'delete', key: 'none' }],
      });
      assert.deepEqual(failed, { succeeded: false, revision: start + 2, deleted: [2, 0, 0] });
      assert.deepEqual(
        (await store.range('')).entries.map(({ key, value }) => [key, value]),
        [
          ['a', '1'],
          ['c', '1'],
        ],
      );
    });

    it('refuses what it could not keep', async () => {
      const operations = Array.from({ length: storeLimits.transactionOperations + 1 }, (_, index) =>
        put(`k${index}`, ''),
      );
      const refused: (() => Promise<unknown>)[] = [
        () => store.put('', 'v'),
        () => store.get('\ud800'),
        () => store.put('k', '\udc00'),
        () => store.put('k'.repeat(storeLimits.keyBytes + 1), ''),
        () => store.put('k', 'x'.repeat(storeLimits.transactionBytes)),
        () => store.transact({ compare: [], success: operations }),
        () => store.transact({ compare: [], success: [put('k', '1'), { kind: 'delete', key: 'k' }] }),
        () => store.transact({ compare: [], success: [put('k/a', '1'), { kind: 'deletePrefix', prefix: 'k/' }] }),
        () => store.grantLease(0.5),
        () => store.keepAlive('none'),
        () => store.compact(0),
        () => store.compact(Number.MAX_SAFE_INTEGER),
        () => store.get('k', { deadlineMs: 0 }),
      ];
      for (const call of refused) await assert.rejects(call, code('InvalidArgument'), call.toString());
      const first = store.watch('', 0)[Symbol.asyncIterator]().next();
      await assert.rejects(first, code('InvalidArgument'));
      assert.deepEqual((await store.range('')).entries, []);
    });

    it('loses no update of several processes', async () => {
      const program = join(import.meta.dirname, 'testing/increment.ts');
      const children = [1, 2, 3].map(() =>
        spawn(process.execPath, [program, address, 'count', '40'], { stdio: ['ignore', 'ignore', 'inherit'] }),
      );
      await Promise.all(children.map(async (child) => assert.deepEqual(await once(child, 'exit'), [0, null])));
      const entry = await store.get('count');
      assert.equal(entry?.value, '120');
      assert.equal(entry?.version, 120);
    });

    it('tells a watch every change once, in order, while writers and servers come and go', async () => {
      const { revision } = await store.range('w/');
      const logs = [new WatchLog(store, 'w/', revision + 1), new WatchLog(await open(), 'w/', revision + 1)];
      const writers = [await open(), await open(), store];
      const rounds = 60;
      const write = async (writer: Store, name: number): Promise<void> => {
        for (let round = 0; round < rounds; round++) {
          const success = [
            put(`w/${name}`, String(round)),
            put('w/shared', `${name}.${round}`),
            put(`other/${name}`, 'x'),
          ];
          for (let written = false; !written; ) {
            // After a lost answer nobody knows; what was written is read before it is written again.
            const before = await writer.get(`w/${name}`);
            if (before?.value === String(round)) break;
            written = await writer.transact({ compare: [], success }).then(
              () => true,
              (thrown) => HearthError.from(thrown).code !== 'Unavailable' && Promise.reject(thrown),
            );
          }
        }
      };
      const writing = Promise.all(writers.map((writer, name) => write(writer, name)));
      await eventually('some events', () => (logs[0]?.events.length ?? 0) > 20);
      await fixture.restart();
      logs.push(new WatchLog(await open(), 'w/', revision + 1));
      await writing;
      const last = await store.put('w/end', '');
      for (const log of logs) {
        await eventually('the last event', () => log.words.at(-1) === `+w/end=@${last}`);
        await log.stop();
        checkHistory(log);
        assert.deepEqual(log.words, logs[0]?.words);
      }
      assert.equal(logs[0]?.events.length, 2 * 3 * rounds + 1);
    });

    it('never splits a transaction over two items of a watch', async () => {
      const from = (await store.revision()) + 1;
      for (let round = 0; round < 12; round++) {
        await store.transact({
          compare: [],
          success: Array.from({ length: 100 }, (_, index) => put(`k${index}`, String(round))),
        });
      }
      const log = new WatchLog(store, '', from);
      await eventually('all events', () => log.events.length === 1200);
      await log.stop();
      for (const item of log.items) {
        assert.equal(item.kind, 'events');
        if (item.kind === 'events') assert.equal(item.events.length % 100, 0);
      }
      checkHistory(log);
    });

    it('ends a watch of forgotten revisions by saying so', async () => {
      const first = await store.put('k', '1');
      await store.put('k', '2');
      await store.delete('k');
      const kept = await store.put('k', '3');
      await store.compact(kept);
      await store.compact(kept);
      await store.compact(first);
      const late = new WatchLog(store, 'k', first);
      await late.ended;
      assert.deepEqual(
        late.items.map((item) => item.kind),
        ['compacted'],
      );
      const future = new WatchLog(store, 'k', kept + 1000);
      await future.ended;
      assert.deepEqual(
        future.items.map((item) => item.kind),
        ['compacted'],
      );
      const log = new WatchLog(store, 'k', kept);
      await store.delete('k');
      const gone = await store.revision();
      await eventually('both events', () => log.events.length === 2);
      assert.deepEqual(log.words, [`+k=3@${kept}`, `-k@${gone}`]);
      await log.stop();
    });

    it('lets keys vanish with a lease that is not kept alive, and tells watches', async () => {
      const short = await store.grantLease(1);
      const long = await store.grantLease(1);
      const from = await store.put('l/short', '1', { lease: short.lease });
      await store.put('l/short2', '1', { lease: short.lease });
      await store.put('l/long', '1', { lease: long.lease });
      await store.put('l/detached', '1', { lease: short.lease });
      await store.put('l/detached', '2');
      assert.equal((await store.get('l/short'))?.lease, short.lease);
      const log = new WatchLog(await open(), 'l/', from);
      const keeping = setInterval(() => void store.keepAlive(long.lease).catch(() => undefined), 200);
      try {
        await eventually('the end of the lease', async () => (await store.get('l/short')) === undefined);
      } finally {
        clearInterval(keeping);
      }
      assert.deepEqual(
        (await store.range('l/')).entries.map((entry) => entry.key),
        ['l/detached', 'l/long'],
      );
      await eventually('two deletions', () => log.words.filter((word) => word.startsWith('-')).length === 2);
      const gone = log.events.filter((event) => event.kind === 'delete');
      assert.deepEqual(
        gone.map((event) => event.key),
        ['l/short', 'l/short2'],
      );
      assert.equal(new Set(gone.map((event) => event.revision)).size, 1);
      await log.stop();
      await assert.rejects(store.keepAlive(short.lease), code('NotFound'));
      await assert.rejects(
        store.transact({ compare: [], success: [put('x', '1'), { ...put('l/y', '1'), lease: short.lease }] }),
        code('NotFound'),
      );
      assert.equal(await store.get('x'), undefined, 'nothing of a failed transaction is written');
    });

    it('revokes leases', async () => {
      const { lease } = await store.grantLease(60);
      await store.put('r', '1', { lease });
      assert.equal(await store.keepAlive(lease), 60);
      await store.revokeLease(lease);
      await store.revokeLease(lease);
      assert.equal(await store.get('r'), undefined);
      await assert.rejects(store.keepAlive(lease), code('NotFound'));
    });

    it('measures leases and deadlines by a clock that nobody can set', async () => {
      const real = Date.now;
      const { lease } = await store.grantLease(1);
      await store.put('c', '1', { lease });
      try {
        for (const jump of [365 * 86_400_000, -365 * 86_400_000]) {
          Date.now = () => real() + jump;
          await store.keepAlive(lease);
          assert.equal((await store.get('c'))?.value, '1');
        }
        await eventually('the end of the lease', async () => (await store.get('c')) === undefined);
      } finally {
        Date.now = real;
      }
    });

    it('keeps keys, revisions and leases over a restart', async () => {
      const { lease } = await store.grantLease(60);
      await store.put('s', '1', { lease });
      const before = await store.range('');
      await store.close();
      await fixture.restart();
      const again = await open();
      assert.deepEqual(await again.range(''), before);
      assert.equal(await again.keepAlive(lease), 60);
    });

    it('ends calls and watches that are given up', async () => {
      await assert.rejects(store.get('k', { signal: AbortSignal.abort() }), code('Cancelled'));
      const log = new WatchLog(store, 'k', (await store.revision()) + 1);
      await new Promise((done) => setTimeout(done, 100));
      await log.stop();
      assert.ok(code('Cancelled')(log.error));
      const open = new WatchLog(store, 'k', (await store.revision()) + 1);
      await new Promise((done) => setTimeout(done, 100));
      const pending = assert.rejects(store.get('k'), code('Cancelled'));
      await store.close();
      await pending;
      await open.ended;
      assert.ok(code('Cancelled')(open.error));
      await assert.rejects(store.get('k'), code('Cancelled'));
      await store.close();
    });

    it('stops a watch by leaving its loop', async () => {
      const from = await store.put('k', '1');
      for await (const item of store.watch('k', from)) {
        assert.equal(item.kind, 'events');
        break;
      }
      assert.equal((await store.get('k'))?.value, '1');
    });
  });
}

/** Each key's versions count up by one from its creation, and revisions never fall: nothing is missing or told twice. */
function checkHistory(log: WatchLog): void {
  const versions = new Map<string, number>();
  let revision = 0;
  for (const event of log.events) {
    const now = revisionOf(event);
    assert.ok(now >= revision, `revision ${now} after ${revision}`);
    revision = now;
    if (event.kind === 'delete') versions.delete(event.key);
    else {
      assert.equal(event.entry.version, (versions.get(event.entry.key) ?? 0) + 1, event.entry.key);
      versions.set(event.entry.key, event.entry.version);
    }
  }
}

function revisionOf(event: StoreEvent): number {
  return event.kind === 'put' ? event.entry.modRevision : event.revision;
}

conformance(sqliteFixture());
conformance(etcdFixture());
