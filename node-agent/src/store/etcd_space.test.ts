import assert from 'node:assert/strict';
import { silentLogger } from '@hearth/common';
import { findTool, RunningClock, until } from '@hearth/common/testing';
import { EtcdStore } from './etcd_store.ts';
import { StoreGuard } from './store_guard.ts';
import { EtcdServer } from './testing/etcd_server.ts';

const quotaBytes = 16 << 20;
const value = 'x'.repeat(256 << 10);

describe('the space of an etcd', () => {
  let server: EtcdServer;
  let store: EtcdStore;
  let guard: StoreGuard | undefined;

  before(async function () {
    this.timeout(30 * 60_000);
    const found = await findTool('etcd');
    if ('missing' in found) {
      console.log(`      skipped: ${found.missing}`);
      this.skip();
    }
    server = new EtcdServer(found.program, [`--quota-backend-bytes=${quotaBytes}`]);
    await server.start();
    store = EtcdStore.open(`etcd://${server.endpoint}/test`);
  });
  after(async () => {
    await guard?.close();
    await store?.close();
    await server?.erase();
  });

  /** Looks every 50 ms. */
  const start = (owned: boolean) => {
    const clock = new RunningClock();
    guard = new StoreGuard({ store, owned, leading: () => true, logger: silentLogger, clock, intervalMs: 50 });
    return guard;
  };
  const fill = async () => {
    for (;;) await store.put('counter', value);
  };

  it('is reported from half of the quota on, and left alone where the etcd is of others', async () => {
    const watching = start(false);
    await until('a look', () => watching.capabilities().length > 0);
    assert.deepEqual(watching.capabilities(), [{ name: 'store-space', ready: true, reason: '' }]);
    await assert.rejects(fill(), { code: 'OutOfSpace' });
    await until('it is full', () => /refuses all writes$/.test(watching.capabilities()[0]?.reason ?? ''));
    assert.equal(watching.capabilities()[0]?.ready, false);
    await watching.close();
    assert.equal((await store.maintenance.space()).full, true, 'nobody freed it');
  });

  it('is freed when it is full, and deleted as it grows', async () => {
    const watching = start(true);
    await until('it takes writes', () =>
      store.put('counter', 'y').then(
        () => true,
        () => false,
      ),
    );
    const space = await store.maintenance.space();
    assert.deepEqual([space.full, space.quotaBytes, space.bytes < quotaBytes / 4], [false, quotaBytes, true]);
    assert.equal((await store.get('counter'))?.value, 'y');
    // Several times the quota, as slowly as history is deleted.
    for (let written = 0; written < 3 * quotaBytes; written += value.length) {
      await until('there is room', async () => (await store.maintenance.space()).bytes < quotaBytes * 0.75);
      await store.put('counter', value);
    }
    await watching.close();
  });
});
