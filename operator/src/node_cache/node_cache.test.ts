import assert from 'node:assert/strict';
import { Dataset } from '@hearth/common/generated/hearth/v1/control.ts';
import type { NodeCache } from '@hearth/common/resources';
import { TestClock, until } from '@hearth/common/testing';
import type { Agents, ClusterStatus } from '../agents/index.ts';
import { nodeStatus } from '../agents/testing/fake_agent.ts';
import type { Place } from '../kubernetes/index.ts';
import { type ConditionState, reconcileKey } from '../reconciler/index.ts';
import { sampleCluster } from '../storage_cluster/testing/samples.ts';
import { figuresOf } from './cached.ts';
import { NodeCacheReconciler, type ObservedNodeCache, planNodeCache } from './node_cache_reconciler.ts';

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

  it('say how much of a dataset the node has in memory', () => {
    const residency = [
      { node: 'n1', residentBytes: 118n, memoryBytes: 100n },
      { node: 'n2', residentBytes: 118n, memoryBytes: 118n },
    ];
    const dataset = Dataset.fromPartial({ name: 'ns.d', bytes: 118n, residency });
    const whole = { datasets: new Map([['ns.d', dataset]]) } as unknown as ClusterStatus;
    const agent = nodeStatus('n1', { residentBytes: { 'ns.d': 118n } });
    assert.equal(figuresOf(agent, whole).datasets?.[0]?.memoryBytes, 100);
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
      caches: { get: () => state.cache, keys: () => [] } as never,
      clusters: { get: (name: string) => (name === 'models' ? cluster : undefined) } as never,
      kept: { condition: () => state.leaving },
      placeOf: () => state.place,
      now: () => state.now,
    });
    return { reconcile: reconcileKey(reconciler, (node) => node), state, writes, tell };
  }

  it('writes 50 times a second at most, for all nodes together', async () => {
    const clock = new TestClock();
    let written = 0;
    const caches = Array.from({ length: 2_000 }, (_, index) => `n${index}`);
    const reconciler = new NodeCacheReconciler({
      api: { apply: async () => ({ metadata: {}, written: ++written }) as never, delete: async () => true },
      agents: { get: () => undefined } as unknown as Agents,
      caches: { get: () => undefined, keys: () => caches } as never,
      clusters: { get: () => sampleCluster() } as never,
      kept: { condition: () => undefined },
      placeOf: () => ({ cluster: 'models', group: 'all' }),
      now: () => 0,
      clock,
    });
    const object = { metadata: {} };
    const writes = Array.from({ length: 120 }, (_, index) =>
      reconciler.apply({ kind: 'write', object, status: undefined }, `n${index}`, signal),
    );
    await until('a burst', () => written === 50);
    await clock.advance(1_000);
    await until('the rate', () => written === 100);
    await clock.advance(1_000);
    await Promise.all(writes);
    assert.equal((await reconciler.observe('n1')).pauseMs, 40_000, 'figures of many nodes wait longer');
  });

  it('reports whether a node that is to go may go', async () => {
    const { reconcile, state, tell } = setUp();
    tell(10n);
    state.leaving = { type: 'LastCopiesMoved', status: 'False', reason: 'Moving', message: 'a to n2' };
    await reconcile('n1', signal);
    const types = () => state.cache?.status?.conditions?.map(({ type, status }) => `${type}=${status}`);
    assert.deepEqual(types(), ['Ready=True', 'LastCopiesMoved=False']);
    state.leaving = undefined;
    state.now += 20_000;
    await reconcile('n1', signal);
    assert.deepEqual(types(), ['Ready=True'], 'it stays after all');
  });

  it('makes it, and writes changes, at most every ten seconds', async () => {
    const { reconcile, state, writes, tell } = setUp();
    tell(10n);
    await reconcile('n1', signal);
    assert.deepEqual(writes.splice(0), ['object', 'status']);
    assert.equal(state.cache?.status?.usedBytes, 10);
    state.now += 20_000;
    await reconcile('n1', signal);
    assert.deepEqual(writes, [], 'the time alone is no news');
    tell(20n);
    await reconcile('n1', signal);
    assert.deepEqual(writes.splice(0), ['status']);
    tell(30n);
    state.now += 4_000;
    assert.deepEqual(await reconcile('n1', signal), { requeueAfterMs: 6_000 });
    assert.deepEqual(writes, []);
  });

  it('reports at once when the agent begins or ends to serve', async () => {
    const { reconcile, state, writes, tell } = setUp();
    tell(10n);
    await reconcile('n1', signal);
    for (const ready of [false, true]) {
      writes.length = 0;
      state.now += 1_000;
      const agent = nodeStatus('n1', { budgetBytes: 100n, usedBytes: 10n, ready });
      if (state.status !== undefined) state.status = { ...state.status, nodes: new Map([['n1', agent]]) };
      assert.deepEqual(await reconcile('n1', signal), {});
      assert.deepEqual(writes, ['status']);
      assert.equal(state.cache?.status?.conditions?.[0]?.status, ready ? 'True' : 'False');
    }
  });

  it('waits after a start before it says that no agent answers', async () => {
    const { reconcile, state, writes } = setUp();
    assert.deepEqual(await reconcile('n1', signal), { requeueAfterMs: 30_000 });
    assert.deepEqual(writes.splice(0), ['object']);
    state.now += 30_000;
    await reconcile('n1', signal);
    assert.equal(state.cache?.status?.conditions?.[0]?.reason, 'NoAgentAnswers');
  });

  it('keeps what was known while no agent answers, and says when one has not joined', async () => {
    const { reconcile, state, tell } = setUp();
    tell(10n);
    await reconcile('n1', signal);
    state.now += 20_000;
    if (state.status !== undefined) state.status = { ...state.status, connected: false };
    await reconcile('n1', signal);
    assert.equal(state.cache?.status?.usedBytes, 10);
    assert.equal(state.cache?.status?.conditions?.[0]?.status, 'Unknown');
    state.now += 20_000;
    if (state.status !== undefined) state.status = { ...state.status, connected: true, nodes: new Map() };
    await reconcile('n1', signal);
    assert.equal(state.cache?.status?.ready, false);
    assert.equal(state.cache?.status?.conditions?.[0]?.reason, 'NoAgent');
  });

  it('removes it when the node belongs to no cluster', async () => {
    const { reconcile, state, writes, tell } = setUp();
    tell(10n);
    await reconcile('n1', signal);
    state.place = undefined;
    writes.length = 0;
    await reconcile('n1', signal);
    await reconcile('n1', signal);
    assert.deepEqual(writes, ['delete']);
  });
});

describe('plan for a NodeCache', () => {
  const now = 1_000_000;
  const cluster = sampleCluster();
  const status = (ready = true): ClusterStatus => ({
    receivedAt: 0,
    connected: true,
    nodes: new Map([['n1', nodeStatus('n1', { budgetBytes: 100n, usedBytes: 10n, ready })]]),
    datasets: new Map(),
    jobs: new Map(),
    apiDifferences: [],
  });
  const plan = (fields: Partial<ObservedNodeCache> = {}) =>
    planNodeCache('n1', {
      now,
      cache: undefined,
      cluster,
      status: status(),
      copies: undefined,
      startedAt: 0,
      writtenAt: 0,
      pauseMs: 10_000,
      ...fields,
    });

  it('is to make one with what is known, and to delete one of no cluster', () => {
    const [action] = plan().actions;
    assert.ok(action?.kind === 'write');
    assert.equal(action.object?.spec?.nodeName, 'n1');
    assert.equal(action.status?.figures.usedBytes, 10);
    const cache = { metadata: { name: 'n1' } } as NodeCache;
    assert.deepEqual(plan({ cluster: undefined, cache }), { actions: [{ kind: 'delete' }] });
    assert.deepEqual(plan({ cluster: undefined }), { actions: [] });
  });

  it('is to make it without a status while agents may still answer for the first time', () => {
    const { actions, requeueAfterMs } = plan({ status: undefined, startedAt: now - 10_000 });
    assert.equal(requeueAfterMs, 20_000);
    assert.ok(actions[0]?.kind === 'write' && actions[0].status === undefined);
  });

  it('lets figures wait, and nothing that turns', () => {
    const [made] = plan().actions;
    assert.ok(made?.kind === 'write');
    const ready = { type: 'Ready', status: 'True', reason: 'Ready', message: '', lastTransitionTime: '' };
    const cache = { ...made.object, metadata: made.object?.metadata, status: { conditions: [ready] } } as NodeCache;
    const early = { cache, writtenAt: now - 4_000 };
    assert.deepEqual(plan(early), { actions: [], requeueAfterMs: 6_000 });
    assert.equal(plan({ ...early, status: status(false) }).actions.length, 1);
    assert.equal(plan({ cache, writtenAt: now - 10_000 }).actions.length, 1);
  });
});
