import assert from 'node:assert/strict';
import type { CachePreload, Dataset } from '@hearth/common/resources';
import { clockAnnotation } from './gate_clock.ts';
import type { GroupAction } from './group_action.ts';
import { describeUnready, groupFacts } from './group_facts.ts';
import { type ObservedGroup, planGroup } from './group_plan.ts';
import { newPreload } from './group_preload.ts';
import type { GatedMember } from './groups.ts';
import { datasetOf, inline, known, podOf } from './testing/objects.ts';

const created = Date.parse('2026-01-01T00:00:00Z');
const minute = 60_000;
const model = datasetOf('llama', { timeout: '10m' });
const wanted = { cluster: 'main', parts: [], datasets: new Map([['team/llama', 1]]) };

function member(name = 'a', createdAt = created, dataset = 'llama'): GatedMember {
  const gated = podOf(name, [inline(dataset)]);
  return { namespace: 'team', name, uid: `uid-${name}`, createdAt, preload: 'p', node: '', deleting: false, gated };
}

function observed(fields: Partial<ObservedGroup> & { datasets?: Dataset[] } = {}): ObservedGroup {
  const { datasets = [model], pods = [member()], ...rest } = fields;
  const facts = groupFacts(pods, known({ datasets }));
  return {
    key: 'team/p',
    now: created + 1_000,
    pods,
    facts: pods.length === 0 ? undefined : facts,
    emptyMs: undefined,
    preload: undefined,
    state: { open: new Set() },
    wanted: describeUnready(facts.datasets) === '' ? wanted : undefined,
    plan: undefined,
    lastPlan: undefined,
    readiness: undefined,
    nodes: undefined,
    isHolding: pods.length > 0,
    nodesAgeMs: Number.POSITIVE_INFINITY,
    hostname: (node) => node,
    ...rest,
  };
}

const { facts } = observed();
assert.ok(facts);
const preload = newPreload({ namespace: 'team', name: 'p' }, [member()], facts.gate, ['llama']);
const going = { ...preload, metadata: { ...preload.metadata, deletionTimestamp: '2026-01-01T00:00:01Z' } };
const foreign = { ...preload, metadata: { ...preload.metadata, labels: {} } };

/** Without the first, which is always the same. */
function words(given: Partial<ObservedGroup> & { datasets?: Dataset[] } = {}): string[] {
  const [first, ...others] = planGroup(observed(given));
  assert.equal(first?.kind, 'follow');
  return others.map((action) => {
    if (action.kind === 'requeueAfter') return `requeueAfter in ${action.ms / 1_000} s`;
    return action.kind === 'release' ? `release ${action.reason}` : action.kind;
  });
}
const find = <K extends GroupAction['kind']>(kind: K, given: Partial<ObservedGroup>) =>
  planGroup(observed(given)).find((action): action is Extract<GroupAction, { kind: K }> => action.kind === kind);

describe('plan for a group with pods that wait', () => {
  it('makes its CachePreload, if that is not there, and has nodes chosen; looks again at the end of its time', () => {
    assert.deepEqual(words(), ['requeueAfter in 599 s', 'createPreload', 'choose', 'wait', 'requeueAfter in 1 s']);
    assert.deepEqual(words({ preload }), ['requeueAfter in 599 s', 'choose', 'wait', 'requeueAfter in 1 s']);
    assert.deepEqual(find('createPreload', {})?.object.spec.datasets, [{ name: 'llama' }]);
    assert.equal(find('choose', {})?.wanted, wanted);
  });

  it('patches its CachePreload when more pods have come', () => {
    assert.ok(words({ preload, pods: [member(), member('b')] }).includes('patchPreload'));
  });

  it('waits for Datasets that are not ready, and for nothing when its time is over', () => {
    const { status: _, ...unlisted } = model;
    const early = { datasets: [unlisted], now: created + minute };
    assert.ok(!words(early).includes('choose'), 'there is nothing to plan with yet');
    assert.match(find('wait', early as never)?.message ?? '', /Dataset team\/llama is not ready/);
    assert.deepEqual(words({ now: created + 10 * minute }), ['release TimedOut']);
  });

  it('waits five seconds at most for objects that may be made together with the pods', () => {
    const [atTheLatest, soon, ...others] = words({ datasets: [] });
    assert.match(atTheLatest ?? '', /^requeueAfter/);
    assert.deepEqual([soon, others], ['requeueAfter in 4 s', []]);
    assert.deepEqual(words({ datasets: [], now: created + 5_000 }).slice(1), ['release NoDataset']);
  });

  it('releases when there is nothing to wait for', () => {
    assert.ok(words({ datasets: [datasetOf('llama', { mode: 'Off' })] }).includes('release Off'));
    assert.ok(words({ key: 'team/!a' }).includes('release NoPlan'), 'given the gate by hand');
    assert.ok(words({ preload: foreign }).includes('release NoPlan'));
    assert.deepEqual(words({ preload: foreign, now: created + 10 * minute }), ['release TimedOut']);
  });

  it('lets pods go whose plan was deleted, and not those that were made after that', () => {
    const deletionTimestamp = new Date(created + 1_000).toISOString();
    const deleted = { ...preload, metadata: { ...preload.metadata, deletionTimestamp } };
    assert.ok(words({ preload: deleted }).includes('release Withdrawn'));
    const later = [member(), member('b', created + 1_000)];
    assert.ok(!words({ preload: deleted, pods: later }).includes('release Withdrawn'), 'a new one is for all');
  });

  it('waits for the watch where its CachePreload is going', () => {
    const later = [member('b', Date.parse(going.metadata.deletionTimestamp ?? ''))];
    assert.ok(!words({ preload: going, pods: later }).some((word) => /^(release|create)/.test(word)));
  });

  it('lets its time stand while others hold all pods, and releases only those that are free when it is over', () => {
    const held = member('h');
    held.gated = { ...held.gated, spec: { containers: [], ...held.gated.spec, schedulingGates: [{ name: 'kueue' }] } };
    const late = { now: created + 20 * minute };
    const waits = find('wait', { ...late, pods: [held] });
    assert.match(waits?.message ?? '', /; the time of the gate does not run, as kueue holds the pod$/);
    assert.equal(
      find('createPreload', { ...late, pods: [held] })?.object.metadata.annotations?.[clockAnnotation],
      'held',
    );
    assert.ok(find('patchPreload', { ...late, pods: [held], preload }));
    const release = find('release', { ...late, pods: [held, member('f')], preload });
    assert.deepEqual([release?.reason, release?.pods.map(({ name }) => name)], ['TimedOut', ['f']]);
  });

  it('releases at once when a Dataset cannot become ready, but not those that may be made with the pods', () => {
    const condition = { type: 'Ready', status: 'False', reason: 'NotFound', message: 'there is no such repo' } as const;
    const conditions = [{ ...condition, observedGeneration: 2, lastTransitionTime: '' }];
    const metadata = { ...model.metadata, generation: 2 };
    const wrong = { ...model, metadata, status: { conditions } };
    const now = created + 5_000;
    assert.equal(
      find('release', { datasets: [wrong], now } as never)?.message,
      'starts without waiting, as Dataset team/llama cannot become ready: there is no such repo',
    );
    assert.ok(!words({ datasets: [wrong], now: now - 1 }).includes('release NoPlan'));
    const corrected = { ...wrong, metadata: { ...metadata, generation: 3 } };
    assert.ok(!words({ datasets: [corrected], now }).includes('release NoPlan'), 'it is not assessed yet');
    const away = { ...wrong, status: { conditions: [{ ...conditions[0], reason: 'AgentsUnavailable' }] } };
    assert.ok(!words({ datasets: [away as never], now }).includes('release NoPlan'), 'it may become ready');
  });

  it('releases when the API server refuses its CachePreload, or the nodes of its plan', () => {
    const refused = find('release', { state: { open: new Set(), refused: 'a quota' } });
    assert.equal(refused?.message, 'starts without waiting, as the API server refuses its CachePreload: a quota');
    const unwritten = find('release', { preload, state: { open: new Set(), nodesRefused: 'a policy' } });
    assert.match(unwritten?.message ?? '', /the operator cannot write the nodes of its plan: a policy$/);
  });

  it('releases only the pods of a plan for a reason of that plan, and looks again for the others', () => {
    const plan = { kind: 'release', reason: 'NoRoom', message: 'No node has room.', pods: new Set(['a']) } as const;
    const pods = [member(), member('b')];
    assert.deepEqual(
      find('release', { pods, plan })?.pods.map(({ name }) => name),
      ['a'],
    );
    assert.equal(words({ pods, plan }).at(-1), 'requeueAfter in 0 s');
  });

  it('tells its pods after two seconds, and again when more than a figure has changed', () => {
    const message = 'the operator is choosing nodes for the pod';
    const late = { preload, now: created + 2_000 };
    assert.deepEqual(find('wait', { preload })?.notify, []);
    assert.deepEqual(
      find('wait', late)?.notify.map(({ name }) => name),
      ['a'],
    );
    assert.deepEqual(find('wait', { ...late, state: { open: new Set(), reported: message } })?.notify, []);
    assert.equal(find('wait', { ...late, state: { open: new Set(), reported: 'another' } })?.notify.length, 1);
  });
});

describe('plan for the nodes of a CachePreload', () => {
  const withNodes = (nodes: string[]): CachePreload => {
    const { gatedPods } = preload.spec.placement;
    return { ...preload, spec: { ...preload.spec, placement: { gatedPods: { ...gatedPods, nodes } } } } as CachePreload;
  };
  const writes = (fields: Partial<ObservedGroup>) =>
    planGroup(observed({ preload, ...fields }))
      .filter(({ kind }) => kind === 'writeNodes')
      .map((action) => (action as { change: CachePreload }).change.spec.placement.gatedPods?.nodes);
  const idle = { pods: [], nodesAgeMs: 0 };

  it('writes them when they differ, at once and in order while pods wait', () => {
    assert.deepEqual(writes({ nodes: ['n1'], nodesAgeMs: 0 }), [['n1']]);
    assert.deepEqual(writes({ nodes: ['n2', 'n1'], preload: withNodes(['n1', 'n2']), nodesAgeMs: 0 }), [['n2', 'n1']]);
    assert.deepEqual(writes({ nodes: ['n1'], preload: withNodes(['n1']) }), []);
    assert.deepEqual(writes({ nodes: undefined }), []);
    assert.deepEqual(writes({ nodes: ['n1'], preload: undefined }), []);
    assert.deepEqual(writes({ nodes: ['n1'], preload: foreign }), []);
  });

  it('writes them now and then while pods are bound one after the other, whatever their order', () => {
    const nodes = Array.from({ length: 500 }, (_, index) => `n${index}`);
    assert.deepEqual(writes({ ...idle, nodes }), []);
    assert.deepEqual(
      planGroup(observed({ ...idle, nodes, preload })).filter(({ kind }) => kind === 'requeueAfter'),
      [{ kind: 'requeueAfter', ms: 5_000 }],
    );
    assert.equal(writes({ ...idle, nodes, nodesAgeMs: 5_000 }).length, 1);
    assert.deepEqual(writes({ ...idle, nodesAgeMs: 5_000, nodes: ['n2', 'n1'], preload: withNodes(['n1', 'n2']) }), []);
  });

  it('writes them before pods are released', () => {
    const kinds = planGroup(observed({ preload, nodes: ['n1'], now: created + 10 * minute })).map(({ kind }) => kind);
    assert.deepEqual(kinds, ['follow', 'writeNodes', 'release']);
  });
});

describe('plan for a group without pods that wait', () => {
  const plan = (fields: Partial<ObservedGroup>) => planGroup(observed({ pods: [], preload, ...fields }));

  it('lets its plan outlive its last pod for a moment', () => {
    assert.deepEqual(plan({}), [{ kind: 'idle' }], 'pods are there, and run');
    assert.deepEqual(plan({ emptyMs: 2_000 }), [
      { kind: 'forget', gone: false },
      { kind: 'requeueAfter', ms: 3_000 },
    ]);
    assert.deepEqual(plan({ emptyMs: 5_000 }), [
      { kind: 'forget', gone: false },
      { kind: 'deletePreload', preload },
    ]);
  });

  it("leaves alone what is another owner's, going, or gone", () => {
    for (const other of [foreign, going, undefined]) {
      const gone = other === undefined;
      assert.deepEqual(plan({ emptyMs: 60_000, preload: other }), [{ kind: 'forget', gone }]);
    }
  });
});
