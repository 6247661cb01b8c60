import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { HearthError } from '@hearth/common';
import { elapse } from '@hearth/common/testing';
import { storeLimits } from './store.ts';
import { describeStores } from './testing/stores.ts';
import { WatchLog } from './testing/watch_log.ts';

const code = (expected: string) => (thrown: unknown) => thrown instanceof HearthError && thrown.code === expected;
const put = (key: string, value: string) => ({ kind: 'put', key, value }) as const;

describeStores('keys and transactions', (env) => {
  it('counts revisions, versions and creations of keys', async () => {
    const first = await env.store.put('k', '{"a":1}');
    const second = await env.store.put('k', '{"a":2}');
    assert.equal(second, first + 1);
    assert.deepEqual(await env.store.get('k'), {
      key: 'k',
      value: '{"a":2}',
      createRevision: first,
      modRevision: second,
      version: 2,
      lease: undefined,
    });
    assert.equal(await env.store.delete('k'), true);
    assert.equal(await env.store.delete('k'), false);
    assert.equal(await env.store.get('k'), undefined);
    assert.equal(await env.store.revision(), second + 1, 'deleting what is not there changes nothing');
    const again = await env.store.put('k', '3');
    const entry = await env.store.get('k');
    assert.equal(entry?.createRevision, again);
    assert.equal(entry?.version, 1);
  });

  it('stores every value unchanged', async () => {
    const values = ['', '\0', 'a\0b', 'ÿ€𝄞', '\ufeff{}', 'x'.repeat(storeLimits.transactionBytes - 10)];
    for (const [index, value] of values.entries()) await env.store.put(`v${index}`, value);
    for (const [index, value] of values.entries()) assert.equal((await env.store.get(`v${index}`))?.value, value);
  });

  it('orders keys bytewise and bounds prefixes', async () => {
    // In UTF-16 order \u{1d11e} would come before \uffff.
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
    for (const key of keys.toReversed()) await env.store.put(key, key);
    const names = async (prefix: string) => (await env.store.range(prefix)).entries.map((entry) => entry.key);
    assert.deepEqual(await names(''), keys);
    assert.deepEqual(await names('a/'), ['a/', 'a/b']);
    assert.deepEqual(await names('ÿ'), ['ÿ', 'ÿ/x']);
    assert.deepEqual(await names('\u{ffff}'), ['\u{ffff}', '\u{ffff}z']);
    assert.deepEqual(await names('\u{10ffff}'), ['\u{10ffff}', '\u{10ffff}\u{10ffff}']);
    assert.deepEqual(await names('nothing'), []);
  });

  it('reads a range of several pages at one revision', async () => {
    const keys = Array.from({ length: 1100 }, (_, index) => `n/${String(index).padStart(5, '0')}`);
    for (let from = 0; from < keys.length; from += 100) {
      await env.store.transact({ compare: [], success: keys.slice(from, from + 100).map((key) => put(key, '1')) });
    }
    const { entries, revision } = await env.store.range('n/');
    assert.deepEqual(
      entries.map((entry) => entry.key),
      keys,
    );
    assert.equal(revision, await env.store.revision());
  });

  it('executes one branch of a transaction atomically, as one revision', async () => {
    const start = await env.store.revision();
    const made = await env.store.transact({
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
        (await env.store.transact({ compare: [compare], success: [] })).succeeded,
        true,
        JSON.stringify(compare),
      );
    for (const compare of fails)
      assert.equal(
        (await env.store.transact({ compare: [compare], success: [] })).succeeded,
        false,
        JSON.stringify(compare),
      );
    assert.equal(await env.store.revision(), start + 1, 'a transaction that changes nothing is no revision');
    const failed = await env.store.transact({
      compare: [...holds, { key: 'b', value: 'other' }],
      success: [put('a', 'wrong')],
      failure: [{ kind: 'deletePrefix', prefix: 'b' }, put('c', '1'), { kind: 'delete', key: 'none' }],
    });
    assert.deepEqual(failed, { succeeded: false, revision: start + 2, deleted: [2, 0, 0] });
    assert.deepEqual(
      (await env.store.range('')).entries.map(({ key, value }) => [key, value]),
      [
        ['a', '1'],
        ['c', '1'],
      ],
    );
  });

  it('refuses values that it could not store', async () => {
    const operations = Array.from({ length: storeLimits.transactionOperations + 1 }, (_, index) =>
      put(`k${index}`, ''),
    );
    const refused: (() => Promise<unknown>)[] = [
      () => env.store.put('', 'v'),
      () => env.store.get('\ud800'),
      () => env.store.put('k', '\udc00'),
      () => env.store.put('k'.repeat(storeLimits.keyBytes + 1), ''),
      () => env.store.put('k', 'x'.repeat(storeLimits.transactionBytes)),
      () => env.store.transact({ compare: [], success: operations }),
      () => env.store.transact({ compare: [], success: [put('k', '1'), { kind: 'delete', key: 'k' }] }),
      () => env.store.transact({ compare: [], success: [put('k/a', '1'), { kind: 'deletePrefix', prefix: 'k/' }] }),
      () => env.store.grantLease(0.5),
      () => env.store.keepAlive('none'),
      () => env.store.compact(0),
      () => env.store.compact(Number.MAX_SAFE_INTEGER),
      () => env.store.get('k', { deadlineMs: 0 }),
    ];
    for (const call of refused) await assert.rejects(call, code('InvalidArgument'), call.toString());
    const first = env.store.watch('', 0)[Symbol.asyncIterator]().next();
    await assert.rejects(first, code('InvalidArgument'));
    assert.deepEqual((await env.store.range('')).entries, []);
  });

  it('loses no update of concurrent processes', async () => {
    const program = join(import.meta.dirname, 'testing/increment.ts');
    const children = [1, 2, 3].map(() =>
      spawn(process.execPath, [program, env.address, 'count', '40'], { stdio: ['ignore', 'ignore', 'inherit'] }),
    );
    await Promise.all(children.map(async (child) => assert.deepEqual(await once(child, 'exit'), [0, null])));
    const entry = await env.store.get('count');
    assert.equal(entry?.value, '120');
    assert.equal(entry?.version, 120);
  });

  it('keeps keys, revisions and leases across a restart', async () => {
    const { lease } = await env.store.grantLease(60);
    await env.store.put('s', '1', { lease });
    const before = await env.store.range('');
    await env.store.close();
    await env.fixture.restart();
    const again = await env.open();
    assert.deepEqual(await again.range(''), before);
    assert.equal(await again.keepAlive(lease), 60);
  });

  it('ends cancelled calls and watches', async () => {
    await assert.rejects(env.store.get('k', { signal: AbortSignal.abort() }), code('Cancelled'));
    const log = new WatchLog(env.store, 'k', (await env.store.revision()) + 1);
    await elapse(100, 'the watch is under way');
    await log.stop();
    assert.ok(code('Cancelled')(log.error));
    const open = new WatchLog(env.store, 'k', (await env.store.revision()) + 1);
    await elapse(100, 'the watch is under way');
    const pending = assert.rejects(env.store.get('k'), code('Cancelled'));
    await env.store.close();
    await pending;
    await open.ended;
    assert.ok(code('Cancelled')(open.error));
    await assert.rejects(env.store.get('k'), code('Cancelled'));
    await env.store.close();
  });
});
