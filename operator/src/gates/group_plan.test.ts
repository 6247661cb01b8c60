import assert from 'node:assert/strict';
import type { GroupView } from './group_decision.ts';
import { groupFacts } from './group_facts.ts';
import { type ObservedGroup, planGroup } from './group_plan.ts';
import { newPreload } from './group_preload.ts';
import type { GatedMember } from './groups.ts';
import { datasetOf, inline, known, podOf } from './testing/objects.ts';

const created = Date.parse('2026-01-01T00:00:00Z');
const minute = 60_000;
const model = datasetOf('llama', { timeout: '10m' });

function member(dataset = 'llama'): GatedMember {
  const gated = podOf('a', [inline(dataset)]);
  return { namespace: 'team', name: 'a', uid: 'u', createdAt: created, preload: 'p', node: '', deleting: false, gated };
}

function view(fields: Partial<GroupView> = {}, pod = member()): GroupView {
  const facts = groupFacts([pod], known({ datasets: [model] }));
  const now = created + 1_000;
  return { key: 'team/p', now, pods: [pod], facts, preload: undefined, withdrawnAt: undefined, ...fields };
}

const { facts } = view();
const preload = newPreload({ namespace: 'team', name: 'p' }, [member()], facts.gate, ['llama']);
const waiting = (fields: Partial<GroupView> = {}, pod = member()) =>
  planGroup({ kind: 'waiting', view: view(fields, pod) }).map((action) =>
    action.kind === 'lookAgain' ? `lookAgain in ${action.ms / 1_000} s` : action.kind,
  );

describe('plan for a group with pods that wait', () => {
  it('is its CachePreload, if that is not there, and then whether its pods may go; in time again', () => {
    assert.deepEqual(waiting(), ['lookAgain in 599 s', 'writePreload', 'judge']);
    assert.deepEqual(waiting({ preload }), ['lookAgain in 599 s', 'judge']);
  });

  it('does not look again when the time of its gate is over', () => {
    assert.deepEqual(waiting({ now: created + 10 * minute }), ['judge']);
  });

  it('is nothing yet while its Datasets are not there, and then to let it go', () => {
    const none = member('none');
    const [atTheLatest, soon, ...others] = waiting({}, none);
    assert.match(atTheLatest ?? '', /^lookAgain/);
    assert.deepEqual([soon, others], ['lookAgain in 4 s', []]);
    assert.deepEqual(waiting({ now: created + 5_000 }, none).slice(1), ['release']);
  });

  it('waits for the watch where its CachePreload is going', () => {
    const going = { ...preload, metadata: { ...preload.metadata, deletionTimestamp: '2026-01-01T00:00:00Z' } };
    assert.deepEqual(waiting({ preload: going }), ['lookAgain in 599 s']);
  });
});

describe('plan for a group without pods that wait', () => {
  const plan = (fields: Partial<Extract<ObservedGroup, { kind: 'idle' }>>) =>
    planGroup({ kind: 'idle', emptyMs: undefined, preload, ...fields });

  it('lets its plan outlive its last pod for a moment', () => {
    assert.deepEqual(plan({}), [{ kind: 'rest', empty: false }], 'pods are there, and run');
    assert.deepEqual(plan({ emptyMs: 2_000 }), [
      { kind: 'rest', empty: true },
      { kind: 'lookAgain', ms: 3_000 },
    ]);
    assert.deepEqual(plan({ emptyMs: 5_000 }), [
      { kind: 'rest', empty: true },
      { kind: 'deletePreload', preload },
    ]);
  });

  it("leaves alone what is another owner's, going, or gone", () => {
    const foreign = { ...preload, metadata: { ...preload.metadata, labels: {} } };
    const going = { ...preload, metadata: { ...preload.metadata, deletionTimestamp: '2026-01-01T00:00:00Z' } };
    for (const other of [foreign, going, undefined]) {
      assert.deepEqual(plan({ emptyMs: 60_000, preload: other }), [{ kind: 'rest', empty: true }]);
    }
  });
});
