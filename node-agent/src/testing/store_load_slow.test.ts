import assert from 'node:assert/strict';
import { etcdFixture } from '../store/testing/fixtures.ts';
import { storeLoad } from './store_load.ts';

/** Of etcd's own metrics (https://etcd.io/docs/v3.6/metrics/). */
async function etcdCounter(endpoint: string, name: string): Promise<number> {
  const text = await (await fetch(`http://${endpoint}/metrics`)).text();
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
}

describe('the load of an agent with 500 Datasets on etcd', () => {
  const etcd = etcdFixture();
  before(async function () {
    this.timeout(30 * 60_000);
    const missing = await etcd.start();
    if (missing === undefined) return;
    console.log(`      skipped: ${missing}`);
    this.skip();
  });
  after(() => etcd.stop());

  for (const busy of [false, true]) {
    it(`is a lease renewal each 3 s while it is ${busy ? 'busy' : 'idle'}`, async () => {
      const address = etcd.freshAddress();
      const endpoint = new URL(address).host;
      const counters = () =>
        Promise.all(
          ['etcd_mvcc_put_total', 'etcd_network_client_grpc_received_bytes_total'].map((name) =>
            etcdCounter(endpoint, name),
          ),
        );
      const seconds = 15;
      let before: number[] = [];
      let after: number[] = [];
      const begun = async () => {
        before = await counters();
      };
      const ended = async () => {
        after = await counters();
      };
      const load = await storeLoad({ busy, seconds, datasets: 500, address, begun, ended });
      const [puts = Number.NaN, bytes = Number.NaN] = after.map((value, index) => value - (before[index] ?? 0));
      assert.equal(puts, 0);
      assert.ok(bytes / seconds < 50, `${bytes / seconds} bytes a second with their framing`);
      assert.deepEqual(Object.keys(load.calls), ['keepAlive']);
      assert.ok(load.requests <= 1 / 3 + 1 / seconds, `${load.requests} requests a second`);
    });
  }
});
