import assert from 'node:assert/strict';
import { HearthError } from '@hearth/common';
import { until } from '@hearth/common/testing';
import type { Store, StoreEvent } from './index.ts';
import { patient } from './testing/patient.ts';
import { describeStores } from './testing/stores.ts';
import { WatchLog } from './testing/watch_log.ts';

const code = (expected: string) => (thrown: unknown) => thrown instanceof HearthError && thrown.code === expected;
const put = (key: string, value: string) => ({ kind: 'put', key, value }) as const;

describeStores('watches and leases', (env) => {
  it('delivers every change to a watch once, in order, while writers and servers come and go', async () => {
    const { revision } = await env.store.range('w/');
    const logs = [new WatchLog(env.store, 'w/', revision + 1), new WatchLog(await env.open(), 'w/', revision + 1)];
    const writers = [await env.open(), await env.open(), env.store];
    const rounds = 60;
    const write = async (writer: Store, name: number): Promise<void> => {
      for (let round = 0; round < rounds; round++) {
        const success = [
          put(`w/${name}`, String(round)),
          put('w/shared', `${name}.${round}`),
          put(`other/${name}`, 'x'),
        ];
        for (let written = false; !written; ) {
          // After a lost answer the outcome is unknown, so the test reads before it writes again.
          const before = await writer.get(`w/${name}`, patient);
          if (before?.value === String(round)) break;
          written = await writer.transact({ compare: [], success }, patient).then(
            () => true,
            (thrown) => HearthError.from(thrown).code !== 'Unavailable' && Promise.reject(thrown),
          );
        }
      }
    };
    const writing = Promise.all(writers.map((writer, name) => write(writer, name)));
    await until('some events', () => (logs[0]?.events.length ?? 0) > 20);
    await env.fixture.restart();
    logs.push(new WatchLog(await env.open(), 'w/', revision + 1));
    await writing;
    const last = await env.store.put('w/end', '');
    for (const log of logs) {
      await until('the last event', () => log.words.at(-1) === `+w/end=@${last}`);
      await log.stop();
      checkHistory(log);
      assert.deepEqual(log.words, logs[0]?.words);
    }
    assert.equal(logs[0]?.events.length, 2 * 3 * rounds + 1);
  });

  it('never splits a transaction over two items of a watch', async () => {
    const from = (await env.store.revision()) + 1;
    for (let round = 0; round < 12; round++) {
      await env.store.transact({
        compare: [],
        success: Array.from({ length: 100 }, (_, index) => put(`k${index}`, String(round))),
      });
    }
    const log = new WatchLog(env.store, '', from);
    await until('all events', () => log.events.length === 1200);
    await log.stop();
    for (const item of log.items) {
      assert.equal(item.kind, 'events');
      if (item.kind === 'events') assert.equal(item.events.length % 100, 0);
    }
    checkHistory(log);
  });

  it('ends a watch of compacted revisions with a compacted item', async () => {
    const first = await env.store.put('k', '1');
    await env.store.put('k', '2');
    await env.store.delete('k');
    const kept = await env.store.put('k', '3');
    await env.store.compact(kept);
    await env.store.compact(kept);
    await env.store.compact(first);
    const late = new WatchLog(env.store, 'k', first);
    await late.ended;
    assert.deepEqual(
      late.items.map((item) => item.kind),
      ['compacted'],
    );
    const future = new WatchLog(env.store, 'k', kept + 1000);
    await future.ended;
    assert.deepEqual(
      future.items.map((item) => item.kind),
      ['compacted'],
    );
    const log = new WatchLog(env.store, 'k', kept);
    await env.store.delete('k');
    const gone = await env.store.revision();
    await until('both events', () => log.events.length === 2);
    assert.deepEqual(log.words, [`+k=3@${kept}`, `-k@${gone}`]);
    await log.stop();
  });

  it('deletes keys with an expired lease, and notifies watches', async () => {
    // Long compared with the delay of a turn on a busy machine.
    const short = await env.store.grantLease(10);
    const long = await env.store.grantLease(10);
    const from = await env.store.put('l/short', '1', { lease: short.lease });
    await env.store.put('l/short2', '1', { lease: short.lease });
    await env.store.put('l/long', '1', { lease: long.lease });
    await env.store.put('l/detached', '1', { lease: short.lease });
    await env.store.put('l/detached', '2');
    assert.equal((await env.store.get('l/short'))?.lease, short.lease);
    const log = new WatchLog(await env.open(), 'l/', from);
    const keeping = setInterval(() => void env.store.keepAlive(long.lease).catch(() => undefined), 200);
    try {
      await until('the end of the lease', async () => (await env.store.get('l/short')) === undefined);
    } finally {
      clearInterval(keeping);
    }
    assert.deepEqual(
      (await env.store.range('l/')).entries.map((entry) => entry.key),
      ['l/detached', 'l/long'],
    );
    await until('two deletions', () => log.words.filter((word) => word.startsWith('-')).length === 2);
    const gone = log.events.filter((event) => event.kind === 'delete');
    assert.deepEqual(
      gone.map((event) => event.key),
      ['l/short', 'l/short2'],
    );
    assert.equal(new Set(gone.map((event) => event.revision)).size, 1);
    await log.stop();
    await assert.rejects(env.store.keepAlive(short.lease), code('NotFound'));
    await assert.rejects(
      env.store.transact({ compare: [], success: [put('x', '1'), { ...put('l/y', '1'), lease: short.lease }] }),
      code('NotFound'),
    );
    assert.equal(await env.store.get('x'), undefined, 'nothing of a failed transaction is written');
  });

  it('revokes leases', async () => {
    const { lease } = await env.store.grantLease(60);
    await env.store.put('r', '1', { lease });
    assert.equal(await env.store.keepAlive(lease), 60);
    await env.store.revokeLease(lease);
    await env.store.revokeLease(lease);
    assert.equal(await env.store.get('r'), undefined);
    await assert.rejects(env.store.keepAlive(lease), code('NotFound'));
  });

  it('measures leases and deadlines by a clock that cannot be set', async () => {
    const real = Date.now;
    const { lease } = await env.store.grantLease(600);
    await env.store.put('c', '1', { lease });
    const ending = await env.store.grantLease(5);
    await env.store.put('d', '1', { lease: ending.lease });
    try {
      for (const jump of [365 * 86_400_000, -365 * 86_400_000]) {
        Date.now = () => real() + jump;
        await env.store.keepAlive(lease);
        assert.equal((await env.store.get('c'))?.value, '1');
      }
      await until('the end of the other lease', async () => (await env.store.get('d')) === undefined);
    } finally {
      Date.now = real;
    }
  });

  it('stops a watch when the consumer leaves the loop', async () => {
    const from = await env.store.put('k', '1');
    for await (const item of env.store.watch('k', from)) {
      assert.equal(item.kind, 'events');
      break;
    }
    assert.equal((await env.store.get('k'))?.value, '1');
  });
});

/**
 * Each key's versions count up by one from its creation, and revisions never decrease: no event is missing or reported
 * twice.
 */
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
