import assert from 'node:assert/strict';
import { Dataset } from '@hearth/common/generated/hearth/v1/control.ts';
import type { NodeCache } from '@hearth/common/resources';
import type { Agents, ClusterStatus } from '../agents/index.ts';
import { nodeStatus } from '../agents/testing/fake_agent.ts';
import type { Place } from '../kubernetes/index.ts';
import type { ConditionState } from '../reconciler/index.ts';
import { sampleCluster } from '../storage_cluster/testing/samples.ts';
import { figuresOf } from './cached.ts';
import { NodeCacheReconciler } from './node_cache_reconciler.ts';

const signal = new AbortController().signal;

describe('figures of a node', () => {
  const residentBytes = Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`ns.d${index}`, BigInt(index)]));
  const status = (names: string[]) =>
    ({
      datasets: new Map(names.map((name) => [name, Dataset.fromPartial({ name, bytes: 118n })])),
    }) as unknown as ClusterStatus;

  it('are the 50 largest datasets, whole percents and capabilities with their reasons', () => {
    const capabilities = [{ name: 'rdma', ready: false, reason: 'no device', pods: [], podsLeftOut: 0 }];
    const agent = nodeStatus('n1', { budgetBytes: 3n, usedBytes: 2n, residentBytes, capabilities });
    const figures = figuresOf(agent, status(['ns.d59']));
    assert.equal(figures.percent, 66);
    assert.equal(figures.datasets?.length, 50);
    assert.deepEqual(figures.datasets?.[0], {
      namespace: 'ns',
      name: 'd59',
      bytes: 118,
      residentBytes: 59,
      percent: 50,
    });
    assert.equal(figures.datasets?.at(-1)?.name, 'd10');
    assert.equal(figures.residentBytes, 1770);
    assert.deepEqual(figures.capabilities, [{ name: 'rdma', ready: false, reason: 'no device' }]);
  });

  it('leave out datasets that no custom resource stands for, and those without a byte', () => {
    const agent = nodeStatus('n1', { residentBytes: { selftest: 5n, 'ns.none': 0n, 'ns.some': 1n } });
    assert.deepEqual(
      figuresOf(agent, status([])).datasets?.map(({ name }) => name),
      ['some'],
    );
  });
});

describe('NodeCacheReconciler', () => {
  function setUp() {
    const cluster = sampleCluster();
    const state: {
      cache: NodeCache | undefined;
      place: Place | undefined;
      status: ClusterStatus | undefined;
      leaving: ConditionState | undefined;
      now: number;
    } = {
      cache: undefined,
      place: { cluster: 'models', group: 'all' },
      status: undefined,
      leaving: undefined,
      now: 1_000_000,
    };
    const writes: string[] = [];
    const tell = (usedBytes: bigint) => {
      const nodes = new Map([['n1', nodeStatus('n1', { budgetBytes: 100n, usedBytes })]]);
      state.status = {
        receivedAt: 0,
        connected: true,
        nodes,
        datasets: new Map(),
        jobs: new Map(),
        apiDifferences: [],
      };
    };
    const reconciler = new NodeCacheReconciler({
      api: {
        apply: async (_type, object, options) => {
          writes.push(options?.subresource ?? 'object');
          const before = state.cache ?? { metadata: {} };
          state.cache = {
            ...before,
            ...object,
            metadata: { ...before.metadata, ...object.metadata, generation: 1 },
          } as never;
          return state.cache as never;
        },
        delete: async () => {
          writes.push('delete');
          state.cache = undefined;
          return true;
        },
      },
      agents: { get: () => ({ status: state.status }) } as unknown as Agents,
      caches: { get: () => state.cache } as never,
      clusters: { get: (name: string) => (name === 'models' ? cluster : undefined) } as never,
      kept: { condition: () => state.leaving },
      placeOf: () => state.place,
      now: () => state.now,
    });
    return { reconciler, state, writes, tell };
  }

  it('tells whether a node that is to go may go', async () => {
    const { reconciler, state, tell } = setUp();
    tell(10n);
    state.leaving = { type: 'LastCopiesMoved', status: 'False', reason: 'Moving', message: 'a to n2' };
    await reconciler.reconcile('n1', signal);
    const types = () => state.cache?.status?.conditions?.map(({ type, status }) => `${type}=${status}`);
    assert.deepEqual(types(), ['Ready=True', 'LastCopiesMoved=False']);
    state.leaving = undefined;
    state.now += 20_000;
    await reconciler.reconcile('n1', signal);
    assert.deepEqual(types(), ['Ready=True'], 'it stays after all');
  });

  it('makes it, and writes news, at most every ten seconds', async () => {
    const { reconciler, state, writes, tell } = setUp();
    tell(10n);
    await reconciler.reconcile('n1', signal);
    assert.deepEqual(writes.splice(0), ['object', 'status']);
    assert.equal(state.cache?.status?.usedBytes, 10);
    state.now += 20_000;
    await reconciler.reconcile('n1', signal);
    assert.deepEqual(writes, [], 'the time alone is no news');
    tell(20n);
    await reconciler.reconcile('n1', signal);
    assert.deepEqual(writes.splice(0), ['status']);
    tell(30n);
    state.now += 4_000;
    assert.deepEqual(await reconciler.reconcile('n1', signal), { requeueAfterMs: 6_000 });
    assert.deepEqual(writes, []);
  });

  it('tells at once when the agent begins or ends to serve', async () => {
    const { reconciler, state, writes, tell } = setUp();
    tell(10n);
    await reconciler.reconcile('n1', signal);
    for (const ready of [false, true]) {
      writes.length = 0;
      state.now += 1_000;
      const agent = nodeStatus('n1', { budgetBytes: 100n, usedBytes: 10n, ready });
      if (state.status !== undefined) state.status = { ...state.status, nodes: new Map([['n1', agent]]) };
      assert.deepEqual(await reconciler.reconcile('n1', signal), {});
      assert.deepEqual(writes, ['status']);
      assert.equal(state.cache?.status?.conditions?.[0]?.status, ready ? 'True' : 'False');
    }
  });

  it('waits after a start before it says that nobody answers', async () => {
    const { reconciler, state, writes } = setUp();
    assert.deepEqual(await reconciler.reconcile('n1', signal), { requeueAfterMs: 30_000 });
    assert.deepEqual(writes.splice(0), ['object']);
    state.now += 30_000;
    await reconciler.reconcile('n1', signal);
    assert.equal(state.cache?.status?.conditions?.[0]?.reason, 'NoAgentAnswers');
  });

  it('keeps what was known while no agent answers, and says when one has not joined', async () => {
    const { reconciler, state, tell } = setUp();
    tell(10n);
    await reconciler.reconcile('n1', signal);
    state.now += 20_000;
    if (state.status !== undefined) state.status = { ...state.status, connected: false };
    await reconciler.reconcile('n1', signal);
    assert.equal(state.cache?.status?.usedBytes, 10);
    assert.equal(state.cache?.status?.conditions?.[0]?.status, 'Unknown');
    state.now += 20_000;
    if (state.status !== undefined) state.status = { ...state.status, connected: true, nodes: new Map() };
    await reconciler.reconcile('n1', signal);
    assert.equal(state.cache?.status?.ready, false);
    assert.equal(state.cache?.status?.conditions?.[0]?.reason, 'NoAgent');
  });

  it('takes it away when the node belongs to nobody', async () => {
    const { reconciler, state, writes, tell } = setUp();
    tell(10n);
    await reconciler.reconcile('n1', signal);
    state.place = undefined;
    writes.length = 0;
    await reconciler.reconcile('n1', signal);
    await reconciler.reconcile('n1', signal);
    assert.deepEqual(writes, ['delete']);
  });
});
