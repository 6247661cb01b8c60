import assert from 'node:assert/strict';
import { silentLogger } from '../logger.ts';
import { until } from '../testing/index.ts';
import { apiOf, startApiServer, type TestApiServer } from '../testing/kubernetes/index.ts';
import { ElectionThread } from './election_thread.ts';
import { type KubernetesApi, kinds } from './index.ts';

const leaseSeconds = 5;
const name = 'threads';

describe('Leader election in a thread', () => {
  let server: TestApiServer;
  let api: KubernetesApi;
  const before_ = process.env.KUBECONFIG;
  before(async function () {
    server = await startApiServer(this);
    api = apiOf(server.kubeconfig);
    process.env.KUBECONFIG = server.kubeconfig;
  });
  after(async () => {
    if (before_ === undefined) delete process.env.KUBECONFIG;
    else process.env.KUBECONFIG = before_;
    api?.close();
    await server?.stop();
  });

  const lease = async () => (await api.get(kinds.Lease, name, 'default'))?.spec;

  it('renews while the main thread is busy for longer than the lease, and releases it at the end', async () => {
    const leaders: string[] = [];
    const thread = new ElectionThread({
      namespace: 'default',
      name,
      identity: 'a',
      leaseSeconds,
      renewSeconds: 4,
      retrySeconds: 0.5,
      userAgent: 'test',
      logger: silentLogger,
      onLeader: (identity) => leaders.push(identity),
    });
    const stop = new AbortController();
    let term: AbortSignal | undefined;
    const running = thread.run(async (signal) => {
      term = signal;
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
    }, stop.signal);
    await until('it leads', () => term);
    assert.equal(thread.isLeader, true);
    // Nothing of this thread runs meanwhile.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2 * leaseSeconds * 1000);
    const blockedUntil = Date.now();
    const { renewTime = '', holderIdentity } = (await lease()) ?? {};
    assert.equal(holderIdentity, 'a');
    assert.ok(blockedUntil - Date.parse(renewTime) < leaseSeconds * 1000, `renewed at ${renewTime}`);
    assert.deepEqual([term?.aborted, leaders], [false, ['a']]);
    stop.abort();
    await running;
    assert.equal(thread.isLeader, false);
    assert.ok(!(await lease())?.holderIdentity, 'it is released');
  });
});
