import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLogger } from '@hearth/common';
import { RunningClock, until } from '@hearth/common/testing';
import { z } from 'zod';
import { openStore, type Store } from '../store/index.ts';
import { CutStore } from '../testing/cut_store.ts';
import { Election } from './election.ts';
import { unsigned } from './fields.ts';
import { Mirror } from './mirror.ts';
import { Session } from './session.ts';
import { RecordTable } from './table.ts';
import { TableWatch } from './table_watch.ts';

const schema = z.object({ name: z.string(), bytes: unsigned });
/** Exceeds the time that a busy machine may delay a session between two renewals; the test waits for one expiry. */
const leaseSeconds = 5;

describe('records', () => {
  let folder: string;
  let store: Store;
  let table: RecordTable<typeof schema>;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'hearth-records-'));
    store = await openStore(`sqlite:${join(folder, 'store.sqlite')}`);
    table = new RecordTable(store, 'things/', schema);
  });
  after(async () => {
    await store.close();
    await rm(folder, { recursive: true });
  });
  beforeEach(async () => {
    await store.transact({ compare: [], success: [{ kind: 'deletePrefix', prefix: 'things/' }] });
  });
  const soon = () => AbortSignal.timeout(300_000);

  it('keep counts beyond 2^53 and ignore unknown fields', async () => {
    await table.put('a', { name: 'a', bytes: 1n << 62n });
    assert.equal((await table.read('a'))?.value.bytes, 1n << 62n);
    await store.put('things/b', '{"name":"b","bytes":"1","later":true}');
    assert.deepEqual((await table.read('b'))?.value, { name: 'b', bytes: 1n });
    assert.equal(await table.read('none'), undefined);
  });

  it('state their format version, and are read without one as written by the first release', async () => {
    await table.put('a', { name: 'a', bytes: 1n });
    const { format } = JSON.parse((await store.get('things/a'))?.value ?? '') as { format: unknown };
    assert.equal(format, 1);
    await store.put('things/first', '{"name":"first","bytes":"7"}');
    assert.equal((await table.read('first'))?.value.bytes, 7n);
  });

  it('keep fields of a later release on update, and drop removed ones', async () => {
    const optional = new RecordTable(store, 'things/', schema.extend({ note: z.string().optional() }));
    await store.put('things/a', '{"format":1,"name":"a","bytes":"1","note":"old","later":{"deep":[1]}}');
    await optional.update('a', (present) => ({ name: present?.name ?? '', bytes: 2n }));
    const raw: unknown = JSON.parse((await store.get('things/a'))?.value ?? '');
    assert.deepEqual(raw, { format: 1, name: 'a', bytes: '2', later: { deep: [1] } });
  });

  it('are left alone when a later release declares them incompatible', async () => {
    const later = ['{"format":2,"name":"a","bytes":"1"}', '{"format":1,"needs":["quotas"],"name":"a","bytes":"1"}'];
    for (const text of later) {
      await store.put('things/a', text);
      const expected = { code: 'Unsupported', message: /things\/a was written by a later release.*upgrade this agent/ };
      await assert.rejects(table.read('a'), expected);
      await assert.rejects(
        table.update('a', () => ({ name: 'mine', bytes: 0n })),
        expected,
      );
      assert.equal((await store.get('things/a'))?.value, text);
      const errors: string[] = [];
      assert.equal((await table.list((error) => errors.push(error.code))).rows.length, 0);
      assert.deepEqual(errors, ['Unsupported']);
    }
  });

  it('name an unreadable record', async () => {
    await store.put('things/bad', '{"name":1}');
    await assert.rejects(table.read('bad'), { code: 'Corrupt', message: /record things\/bad cannot be read/ });
    await store.put('things/worse', '{');
    await assert.rejects(table.read('worse'), { code: 'Corrupt', message: /it is not JSON/ });
  });

  it('survive many concurrent updates without a loss', async () => {
    await Promise.all(
      Array.from({ length: 8 }, () =>
        table.update('n', (present) => ({ name: 'n', bytes: (present?.bytes ?? 0n) + 1n })),
      ),
    );
    assert.equal((await table.read('n'))?.value.bytes, 8n);
  });

  it('are mirrored: the existing ones and every change, but no unreadable ones', async () => {
    await table.put('a', { name: 'a', bytes: 1n });
    await store.put('things/bad', '{}');
    const mirror = new Mirror(table, silentLogger);
    const seen: string[] = [];
    mirror.onChange((changes) =>
      seen.push(...changes.map(({ id, before, after }) => `${id}:${before?.bytes ?? '-'}>${after?.bytes ?? '-'}`)),
    );
    await mirror.ready(soon());
    assert.equal(mirror.rows().length, 1);
    await table.put('a', { name: 'a', bytes: 2n });
    await store.put('things/bad', '[]');
    await table.delete('a');
    const revision = await store.put('things/bad', '{"name":"bad","bytes":"7"}');
    await mirror.caughtUp(revision, soon());
    assert.deepEqual(seen, ['a:->1', 'a:1>2', 'a:2>-', 'bad:->7']);
    await assert.rejects(
      mirror.waitFor(() => undefined, AbortSignal.timeout(20)),
      { code: 'DeadlineExceeded' },
    );
    await mirror.close();
  });

  it('of several tables share one watch: none shows a write without earlier writes', async () => {
    let watches = 0;
    const counting = new Proxy(store, {
      get: (target, key) => {
        if (key === 'watch') watches += 1;
        const value = Reflect.get(target, key);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
    const [parts, ends] = ['both/parts/', 'both/ends/'].map((prefix) => new RecordTable(counting, prefix, schema));
    assert.ok(parts && ends);
    await parts.put('p', { name: 'p', bytes: 0n });
    const watch = new TableWatch(counting, 'both/', silentLogger);
    const [part, end] = [parts, ends].map((one) => new Mirror(one, silentLogger, watch));
    assert.ok(part && end);
    let others = 0;
    const seen: (bigint | undefined)[][] = [];
    end.onChange((changes) => {
      others += changes.length === 0 ? 1 : 0;
      for (const { after } of changes) seen.push([part.get('p')?.bytes, after?.bytes]);
    });
    await Promise.all([part.ready(soon()), end.ready(soon())]);
    let revision = 0;
    for (let n = 1n; n <= 20n; n++) {
      await parts.put('p', { name: 'p', bytes: n });
      revision = await ends.put('e', { name: 'e', bytes: n });
    }
    await end.caughtUp(revision, soon());
    assert.equal(seen.length, 20);
    for (const [before = -1n, after = 0n] of seen) assert.ok(before >= after, `${before} before ${after}`);
    assert.ok(others <= 1, 'who listens to one table is not told of the other');
    assert.equal(watches, 1);
    await part.close();
    await assert.rejects(
      end.waitFor(() => undefined, soon()),
      { code: 'Cancelled' },
    );
  });

  it('are read again after a compaction and after an outage', async () => {
    const cut = new CutStore(store);
    let outage = false;
    const flaky = new Proxy(store, {
      get: (target, key) => {
        const value = Reflect.get(target, key);
        if (key === 'range' && outage) return cut.range.bind(cut);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
    cut.cut();
    outage = true;
    const mirror = new Mirror(new RecordTable(flaky, 'things/', schema), silentLogger);
    await table.put('a', { name: 'a', bytes: 1n });
    await assert.rejects(mirror.ready(AbortSignal.timeout(150)), { code: 'DeadlineExceeded' });
    outage = false;
    await mirror.ready(soon());
    assert.equal(mirror.get('a')?.bytes, 1n);
    await mirror.close();
  });

  it("vanish with their session's lease; a lost lease is replaced", async () => {
    const session = new Session(store, silentLogger, leaseSeconds);
    const first = await session.lease();
    assert.equal(await session.lease(), first);
    assert.ok(session.alive);
    await table.put('leased', { name: 'x', bytes: 0n }, { lease: first });
    let lost = 0;
    session.onLost(() => lost++);
    await store.revokeLease(first);
    await until(() => lost === 1);
    assert.notEqual(await session.lease(), first);
    await table.put('leased', { name: 'x', bytes: 0n }, { lease: await session.lease() });
    await session.close();
    assert.equal(await table.read('leased'), undefined);
  });

  it('certainly exist for nine tenths of their lease after the sending of its last renewal', async () => {
    const boot = { now: () => 1_000, bootId: 'b' };
    const clock = new RunningClock();
    const session = new Session(store, silentLogger, leaseSeconds, clock, boot);
    const lease = await session.lease();
    assert.equal(session.certainUntil(lease), 1_000 + leaseSeconds * 900);
    let renewals = 0;
    session.onRenewed(() => renewals++);
    boot.now = () => 3_000;
    await clock.advance((leaseSeconds * 1000) / 3);
    await until(() => renewals === 1);
    assert.equal(session.certainUntil(lease), 3_000 + leaseSeconds * 900);
    await store.revokeLease(lease);
    assert.notEqual(await replaced(session, lease, clock), lease);
    assert.equal(session.certainUntil(lease), 0);
    await session.close();
  });

  it('are written by the current leader only', async () => {
    const stores = [new CutStore(store), new CutStore(store)] as const;
    const sessions = stores.map((one) => new Session(one, silentLogger, leaseSeconds));
    const elections = stores.map((one, index) => {
      const session = sessions[index] ?? new Session(one, silentLogger, leaseSeconds);
      return new Election({
        store: one,
        session,
        logger: silentLogger,
        key: 'leaders/test',
        node: `n${index}`,
        retryMs: 40,
      });
    });
    await until(() => elections.filter((one) => one.leading).length === 1);
    const first = elections.findIndex((one) => one.leading);
    const put = (name: string) => [table.putOperation('led', { name, bytes: 0n })];
    assert.ok(await elections[first]?.write(put('by the first')));
    assert.equal(await elections[1 - first]?.write(put('by the other')), false);
    stores[first]?.cut();
    await until(() => elections[1 - first]?.leading === true && elections[first]?.leading === false);
    await assert.rejects(async () => await elections[first]?.write(put('too late')));
    assert.ok(await elections[1 - first]?.write(put('by the second')));
    for (const one of [...elections, ...sessions]) await one.close();
    assert.equal(await store.get('leaders/test'), undefined);
  });
});

/** The lease that replaces a revoked one, which the session notices at its next renewal. */
async function replaced(session: Session, revoked: string, clock: RunningClock): Promise<string> {
  let lease = revoked;
  session.onLost(() => {
    lease = '';
  });
  await clock.advance((leaseSeconds * 1000) / 3);
  await until(() => lease === '');
  return await session.lease();
}
