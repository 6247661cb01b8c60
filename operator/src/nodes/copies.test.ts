import assert from 'node:assert/strict';
import { HearthError } from '@hearth/common';
import { type CreateWarmJobRequest, Dataset, WarmJob } from '@hearth/common/generated/hearth/v1/control.ts';
import type { Node } from '@hearth/common/kubernetes';
import type { Dataset as DatasetObject } from '@hearth/common/resources';
import type { Agents, ClusterStatus } from '../agents/index.ts';
import { nodeStatus } from '../agents/testing/fake_agent.ts';
import type { Place } from '../kubernetes/index.ts';
import { reconcileKey } from '../reconciler/index.ts';
import { sampleCluster, sampleNode } from '../storage_cluster/testing/samples.ts';
import { copyState, requestCopy } from './copy.ts';
import { joinDemands } from './join.ts';
import { KeptCopies, lastCopies } from './kept_copies.ts';
import { NodeReconciler } from './node_reconciler.ts';

const signal = new AbortController().signal;
const now = Date.parse('2026-01-01T00:01:00Z');

/** A Dataset of 100 bytes in 2 files, of which nodes have that many bytes. */
function dataset(name: string, resident: Record<string, number> = {}, fields: Partial<Dataset> = {}): Dataset {
  const residency = Object.entries(resident).map(([node, bytes]) => ({
    node,
    residentBytes: BigInt(bytes),
    completeFiles: bytes >= 100 ? 2n : 0n,
  }));
  return Dataset.fromPartial({ name, manifest: 'm', state: 'Ready', bytes: 100n, files: 2n, residency, ...fields });
}

function status(
  datasets: Dataset[],
  nodes: Parameters<typeof nodeStatus>[1][] = [{}],
  jobs: WarmJob[] = [],
): ClusterStatus {
  const known = nodes.map((one, index) => nodeStatus(`n${index + 1}`, { budgetBytes: 1000n, ...one }));
  return {
    receivedAt: now,
    connected: true,
    nodes: new Map(known.map((one) => [one.node, one])),
    datasets: new Map(datasets.map((one) => [one.name, one])),
    jobs: new Map(jobs.map((one) => [one.name, one])),
    apiDifferences: [],
  };
}

const policy = (fields: object) => sampleCluster({ joinPolicies: [{ name: 'p', ...fields }] }).spec.joinPolicies;
const named = (...names: string[]) => names.map((name) => ({ namespace: 'team', name }));

describe('what a node must hold that joins', () => {
  const demanded = (policies: ReturnType<typeof policy>, seen: ClusterStatus) =>
    joinDemands(policies, { name: 'n1', labels: { gpu: 'h200' } }, seen).map(({ dataset: name, complete, trouble }) => [
      name,
      complete,
      trouble,
    ]);

  it('is what policies for its labels name', () => {
    const seen = status([dataset('team.a', { n1: 100 }), dataset('team.b', { n1: 99, n2: 100 })]);
    const policies = [...policy({ nodeSelector: { gpu: 'h200' }, datasets: named('a', 'b') })];
    assert.deepEqual(demanded(policies, seen), [
      ['team.a', true, ''],
      ['team.b', false, ''],
    ]);
    assert.deepEqual(demanded(policy({ nodeSelector: { gpu: 'other' }, datasets: named('a') }), seen), []);
  });

  it('is awaited when it is not there yet, or not Ready', () => {
    const seen = status([dataset('team.b', {}, { state: 'Failed', message: 'the origin says 403' })]);
    assert.deepEqual(demanded(policy({ datasets: named('a', 'b') }), seen), [
      ['team.a', false, 'there is no such Dataset yet'],
      ['team.b', false, 'it is not Ready: the origin says 403'],
    ]);
  });

  it('is what is used most, as far as it fits beside what is named', () => {
    const seen = status(
      [
        dataset('team.a'),
        dataset('team.large', {}, { use: 9, bytes: 950n }),
        dataset('team.first', {}, { use: 8, bytes: 500n }),
        dataset('team.second', {}, { use: 7 }),
        dataset('team.third', {}, { use: 6 }),
        dataset('team.unused'),
      ],
      [{ budgetBytes: 1000n }],
    );
    const names = demanded(policy({ datasets: named('a'), mostUsed: 2 }), seen).map(([name]) => name);
    assert.deepEqual(names, ['team.a', 'team.first', 'team.second']);
    const all = demanded(policy({ mostUsed: 9 }), seen).map(([name]) => name);
    assert.deepEqual(all, ['team.large']);
  });
});

describe('last copies on a node that is to go', () => {
  const nodes = [{}, {}, { budgetBytes: 50n }, { ready: false }];
  const moved = (one: Dataset, leaving: string[], wanted = [one.name]) =>
    lastCopies('n1', wanted, new Set(leaving), status([one], nodes)).map(({ target, trouble }) => target ?? trouble);

  it('are complete ones that no staying node has', () => {
    assert.deepEqual(moved(dataset('team.a', { n1: 100 }), ['n1']), ['n2']);
    assert.deepEqual(moved(dataset('team.a', { n1: 100, n2: 100 }), ['n1']), []);
    assert.deepEqual(moved(dataset('team.a', { n1: 100, n4: 100 }), ['n1']), ['n2'], 'n4 is not ready');
    assert.deepEqual(moved(dataset('team.a', { n1: 99 }), ['n1']), [], 'not complete: the origin is needed anyway');
    assert.deepEqual(moved(dataset('team.a', { n1: 100 }), ['n1'], []), [], 'nobody asked');
  });

  it('go nowhere where pins leave no room, but for what they keep of it already', () => {
    const pinned = [{}, { pinnedBytes: 950n }];
    const targets = (one: Dataset) =>
      lastCopies('n1', [one.name], new Set(['n1']), status([one], pinned)).map(({ target }) => target);
    const partly = dataset('team.a', { n1: 100, n2: 60 });
    assert.deepEqual(targets(partly), [undefined]);
    const kept = partly.residency.map((row) => ({ ...row, pinned: row.node === 'n2' }));
    assert.deepEqual(targets({ ...partly, residency: kept }), ['n2']);
  });

  it('go nowhere that goes too or has no room, and say so', () => {
    assert.match(
      moved(dataset('team.a', { n1: 100, n2: 100 }), ['n1', 'n2']).join(),
      /100 bytes, and no node that stays/,
    );
    assert.match(
      moved(dataset('team.a', { n1: 100 }), ['n1', 'n2', 'n3']).join(),
      /no other node of the cluster is ready/,
    );
  });
});

describe('a copy', () => {
  const copy = { purpose: 'join', dataset: dataset('team.a'), node: 'n1' };
  const asks = (jobs: WarmJob[], error?: HearthError) => {
    const asked: string[] = [];
    const call = async (_name: string, request: CreateWarmJobRequest) => {
      asked.push(request.name);
      if (error !== undefined) throw error;
      return WarmJob.fromPartial({});
    };
    const bring = async () => {
      const state = copyState(new Map(jobs.map((job) => [job.name, job])), copy, now);
      if (state.kind !== 'due') return state;
      await requestCopy({ call } as never, copy, state.job, signal);
      return { kind: 'asked' as const };
    };
    return { asked, state: bring() };
  };

  it('is asked for once, under a name that a restarted operator finds again', async () => {
    const first = asks([]);
    assert.deepEqual(await first.state, { kind: 'asked' });
    const [name = ''] = first.asked;
    const again = asks([], new HearthError('AlreadyExists', 'there is one'));
    assert.deepEqual([await again.state, again.asked], [{ kind: 'asked' }, [name]]);
    const running = asks([WarmJob.fromPartial({ name, state: 'Running' })]);
    assert.equal((await running.state).kind, 'running');
    assert.deepEqual(running.asked, []);
    await assert.rejects(asks([], new HearthError('Unavailable', 'away')).state, /away/);
  });

  it('is tried again a while after it failed, and at once when it was evicted', async () => {
    const [name = ''] = asks([]).asked;
    const failed = (endedAt: string) => WarmJob.fromPartial({ name, state: 'Failed', message: '403', endedAt });
    const early = asks([failed('2026-01-01T00:00:50Z')]);
    assert.deepEqual([await early.state, early.asked], [{ kind: 'failed', message: '403', retryInMs: 20_000 }, []]);
    const late = asks([failed('2026-01-01T00:00:20Z')]);
    assert.deepEqual(await late.state, { kind: 'asked' });
    assert.notEqual(late.asked[0], name);
  });
});

describe('NodeReconciler with bytes', () => {
  function setUp(node: Parameters<typeof sampleNode>[1], seen: ClusterStatus, spec: object = {}) {
    const taint = { key: 'hearth.storage/agent-not-ready', effect: 'NoSchedule' };
    const object = { metadata: { name: 'n1', uid: 'u' }, spec: { taints: [taint] } } as Node;
    const done: string[] = [];
    const nodes = new Map([['n1', sampleNode('n1', node)]]);
    const kept = { metadata: { namespace: 'team', name: 'a' }, spec: { lastCopy: 'Move' } } as DatasetObject;
    const sources = { all: () => [...nodes.values()], get: (name: string) => nodes.get(name) };
    const state = { status: seen, place: { cluster: 'models', group: 'all' } as Place };
    const placeOf = () => state.place;
    const keeper = new KeptCopies({ datasets: { all: () => [kept] }, nodes: sources, placeOf });
    const call = async (_name: string, { dataset: name, nodes: on }: CreateWarmJobRequest) => {
      done.push(`warm ${name} on ${on}`);
      return {};
    };
    const reconciler = new NodeReconciler({
      api: { get: async () => object as never, patch: async () => void done.push('untaint') as never },
      agents: { get: () => ({ ...state, call }) } as unknown as Agents,
      clusters: { get: () => sampleCluster(spec) } as never,
      kept: keeper,
      placeOf,
      events: { eventFor: (_type, _object, kind, reason, message) => void done.push(`${kind} ${reason}: ${message}`) },
      now: () => now,
    });
    const reconcile = reconcileKey(reconciler, sources.get);
    return { reconcile, keeper, done, state };
  }
  const joinPolicies = [{ name: 'p', datasets: named('a') }];

  it('keeps the startup taint until the node holds what is demanded', async () => {
    const { reconcile, done, state } = setUp({ tainted: true }, status([dataset('team.a')]), { joinPolicies });
    assert.deepEqual(await reconcile('n1', signal), { requeueAfterMs: 15_000 });
    await reconcile('n1', signal);
    assert.deepEqual(done, [
      'warm team.a on n1',
      'Normal JoinWaits: Pods may run here when the node holds team.a, as the join policies ask',
      'warm team.a on n1',
    ]);
    done.length = 0;
    state.status = status([dataset('team.a', { n1: 100 })]);
    assert.deepEqual(await reconcile('n1', signal), {});
    assert.deepEqual(done, [
      'untaint',
      'Normal AgentReady: The agent of StorageCluster models is ready, and the node holds team.a; pods may run here',
    ]);
  });

  it('gives up after the timeout, and says what is missing', async () => {
    const spec = { joinPolicies, startupTaint: { timeout: '30s' } };
    const { reconcile, done } = setUp({ tainted: true }, status([]), spec);
    await reconcile('n1', signal);
    assert.match(done[1] ?? '', /^Warning AgentLate: .*after 30s the node still does not hold team\.a/);
  });

  it('moves last copies off a node that is cordoned, and reports when they have moved', async () => {
    const before = status([dataset('team.a', { n1: 100 })], [{}, {}]);
    const { reconcile, keeper, done, state } = setUp({ leaving: true }, before);
    assert.equal(keeper.condition('n1', before)?.reason, 'Moving');
    assert.equal(keeper.condition('n1', { ...before, connected: false })?.status, 'Unknown');
    assert.deepEqual(await reconcile('n1', signal), { requeueAfterMs: 15_000 });
    assert.deepEqual(done, [
      'warm team.a on n2',
      'Normal LastCopiesMove: The node is to go and holds the only complete copies of some Datasets; they are copied: team.a to n2',
    ]);
    done.length = 0;
    state.status = status([dataset('team.a', { n1: 100, n2: 100 })], [{}, {}]);
    await reconcile('n1', signal);
    await reconcile('n1', signal);
    assert.equal(keeper.condition('n1', state.status)?.status, 'True');
    assert.deepEqual(done, [
      'Normal LastCopiesMoved: Every Dataset that keeps its last copy has one on a node that stays',
    ]);
  });

  it('moves last copies off a node that may run no pods any longer', async () => {
    const seen = status([dataset('team.a', { n1: 100 })], [{}, {}]);
    const { reconcile, keeper, done, state } = setUp({}, seen);
    await reconcile('n1', signal);
    assert.deepEqual(done, [], 'it stays');
    state.place = { cluster: 'models', group: 'all', draining: true };
    await reconcile('n1', signal);
    assert.equal(done[0], 'warm team.a on n2');
    assert.equal(keeper.condition('n1', seen)?.reason, 'Moving');
  });

  it('says what is in the way of a last copy', async () => {
    const seen = status([dataset('team.a', { n1: 100 })]);
    const { reconcile, keeper, done } = setUp({ leaving: true }, seen);
    assert.equal(keeper.condition('n1', seen)?.reason, 'NowhereToMove');
    assert.equal(setUp({}, seen).keeper.condition('n1', seen), undefined, 'the node stays');
    await reconcile('n1', signal);
    assert.match(done.join(), /^Warning LastCopiesMove: .*In the way: team\.a: no other node of the cluster is ready$/);
  });
});
