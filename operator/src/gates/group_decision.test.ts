import assert from 'node:assert/strict';
import type { Dataset } from '@hearth/common/resources';
import { decide, type GroupView } from './group_decision.ts';
import { groupFacts } from './group_facts.ts';
import { newPreload } from './group_preload.ts';
import type { GatedMember } from './groups.ts';
import { datasetOf, inline, known, podOf } from './testing/objects.ts';

const created = Date.parse('2026-01-01T00:00:00Z');
const minute = 60_000;

function member(name: string, createdAt = created, dataset = 'llama'): GatedMember {
  const gated = podOf(name, [inline(dataset)]);
  return { namespace: 'team', name, uid: `uid-${name}`, createdAt, preload: 'p', node: '', deleting: false, gated };
}

const model = datasetOf('llama', { timeout: '10m' });

function view(fields: Partial<GroupView> & { datasets?: Dataset[] } = {}): GroupView {
  const { datasets = [model], pods = [member('a')], ...rest } = fields;
  const facts = groupFacts(pods, known({ datasets }));
  return { key: 'team/p', now: created + 1000, pods, facts, preload: undefined, withdrawnAt: undefined, ...rest };
}

const reasonOf = (given: GroupView) => {
  const decision = decide(given);
  return decision.kind === 'release' ? decision.reason : decision.kind;
};

describe('decision on a group', () => {
  it('is to plan: its CachePreload is made, and its pods are planned', () => {
    const decision = decide(view());
    assert.ok(decision.kind === 'plan' && decision.preload?.kind === 'create');
    assert.deepEqual(decision.preload.object.spec.datasets, [{ name: 'llama' }]);
    assert.equal(decision.wanted?.cluster, 'main');
    assert.deepEqual(decision.wanted.parts[0]?.pods, ['a']);
    assert.equal(decision.waitsFor, '');
  });

  it('writes nothing when its CachePreload is as it should be, and what has changed otherwise', () => {
    const pods = [member('a')];
    const { facts } = view();
    const preload = newPreload({ namespace: 'team', name: 'p' }, pods, facts.gate, ['llama']);
    const same = decide(view({ preload }));
    assert.ok(same.kind === 'plan');
    assert.equal(same.preload, undefined);
    const more = decide(view({ preload, pods: [...pods, member('b')] }));
    assert.ok(more.kind === 'plan');
    assert.equal(more.preload?.kind, 'patch');
  });

  it('waits for Datasets that are not ready, and for nothing when its time is over', () => {
    const { status: _, ...unlisted } = model;
    const early = decide(view({ datasets: [unlisted] }));
    assert.ok(early.kind === 'plan');
    assert.equal(early.wanted, undefined, 'there is nothing to plan with yet');
    assert.match(early.waitsFor, /Dataset team\/llama is not ready/);
    const late = decide(view({ now: created + 10 * minute }));
    assert.deepEqual(late, { kind: 'plan', overdue: true, preload: undefined, wanted: undefined, waitsFor: '' });
  });

  it('is left for later while objects may be made together with the pods, five seconds at most', () => {
    assert.deepEqual(decide(view({ datasets: [] })), { kind: 'later', again: created + 5000 });
    assert.equal(reasonOf(view({ datasets: [], now: created + 5000 })), 'NoDataset');
  });

  it('releases when there is nothing to wait for', () => {
    assert.equal(reasonOf(view({ datasets: [datasetOf('llama', { mode: 'Off' })] })), 'Off');
    assert.equal(reasonOf(view({ key: 'team/!a' })), 'NoPlan', 'given the gate by hand');
    const { metadata, ...rest } = newPreload({ namespace: 'team', name: 'p' }, [member('a')], view().facts.gate, []);
    const foreign = { ...rest, metadata: { ...metadata, labels: {} } };
    assert.equal(reasonOf(view({ preload: foreign })), 'NoPlan');
    assert.equal(reasonOf(view({ preload: foreign, now: created + 10 * minute })), 'plan', 'its time is over anyway');
  });

  it('lets pods go whose plan was deleted, and not those that were made after that', () => {
    const withdrawnAt = created + 1500;
    assert.equal(reasonOf(view({ withdrawnAt })), 'Withdrawn');
    assert.equal(reasonOf(view({ withdrawnAt, pods: [member('a'), member('b', created + 1000)] })), 'plan');
    const { metadata, ...rest } = newPreload({ namespace: 'team', name: 'p' }, [member('a')], view().facts.gate, []);
    const going = { ...rest, metadata: { ...metadata, deletionTimestamp: '2026-01-01T00:00:01Z' } };
    assert.deepEqual(decide(view({ preload: going })), { kind: 'later', again: undefined });
  });
});
