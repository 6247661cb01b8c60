import assert from 'node:assert/strict';
import { MeteredStore } from './metered_store.ts';
import { openStore } from './open_store.ts';
import { sqliteFixture } from './testing/fixtures.ts';

describe('a store that counts', () => {
  const fixture = sqliteFixture();
  before(() => fixture.start());
  after(() => fixture.stop());

  it('has requests and bytes by call', async () => {
    const store = new MeteredStore(await openStore(fixture.freshAddress()));
    const { lease } = await store.grantLease(10);
    await store.put('key', 'välue', { lease });
    await store.transact({
      compare: [{ key: 'key', value: 'välue' }],
      success: [
        { kind: 'put', key: 'a', value: 'bc' },
        { kind: 'deletePrefix', prefix: 'old/' },
      ],
    });
    await store.get('key');
    await store.get('none');
    assert.deepEqual(Object.fromEntries(store.traffic), {
      grantLease: { requests: 1, bytes: 8 },
      put: { requests: 1, bytes: 3 + 6 + 8 },
      transact: { requests: 1, bytes: 9 + 3 + 4 },
      get: { requests: 2, bytes: 7 },
    });
    await store.close();
  });
});
