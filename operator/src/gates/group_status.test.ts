import assert from 'node:assert/strict';
import { GroupStatuses } from './group_status.ts';
import { Groups, isStray } from './groups.ts';
import type { Plan } from './plan.ts';
import type { Member } from './pod_view.ts';
import { podOf } from './testing/objects.ts';

const plan: Plan = {
  kind: 'warm',
  pods: new Set(),
  nodes: ['n2', 'n1'],
  affinity: new Map(),
  expected: new Map(),
  bytes: new Map(),
  message: 'n2 and n1 are best',
};
const member = (name: string, fields: Partial<Member> = {}): Member => ({
  namespace: 'team',
  name,
  uid: name,
  createdAt: 0,
  preload: 'p',
  node: '',
  deleting: false,
  gated: podOf(name, []),
  ...fields,
});
const released = { gated: undefined };

describe('groups of pods', () => {
  it('follow their pods, in the order in which they were made', () => {
    const changed: string[] = [];
    const groups = new Groups((key) => changed.push(key));
    groups.update('team/b', undefined, member('b', { createdAt: 1 }));
    groups.update('team/a', undefined, member('a', { createdAt: 2 }));
    groups.update('team/c', undefined, member('c', { createdAt: 2, deleting: true }));
    const names = (list: Member[]) => list.map(({ name }) => name);
    assert.deepEqual(names(groups.members('team/p')), ['b', 'a', 'c']);
    assert.deepEqual(names(groups.gated('team/p')), ['b', 'a'], 'one that is going waits for nothing');
    groups.update('team/b', member('b'), member('b', released));
    assert.deepEqual(names(groups.gated('team/p')), ['a']);
    groups.update('team/b', member('b', released), undefined);
    assert.deepEqual(names(groups.members('team/p')), ['a', 'c']);
    assert.deepEqual(new Set(changed), new Set(['team/p']));
    groups.update('team/a', member('a'), undefined);
    groups.update('team/c', member('c'), undefined);
    assert.deepEqual(groups.keys(), []);
  });

  it('are reported from pods that have our gate and no plan', () => {
    const groups = new Groups(() => undefined);
    groups.update('team/a', undefined, member('a', { preload: '' }));
    groups.update('team/b', undefined, member('b', { preload: '' }));
    assert.equal(groups.keys().length, 2);
    assert.ok(groups.keys().every(isStray));
    assert.equal(isStray('team/p'), false);
  });
});

describe('nodes of a group', () => {
  let heard: string[];
  let groups: Groups;
  let last: Plan | undefined;
  let statuses: GroupStatuses;
  beforeEach(() => {
    heard = [];
    last = undefined;
    groups = new Groups(() => undefined);
    statuses = new GroupStatuses(groups, { lastPlan: () => last });
    statuses.onChange((key) => heard.push(key));
  });
  const put = (name: string, after: Member | undefined) => {
    const before = groups.members('team/p').find((one) => one.name === name);
    groups.update(`team/${name}`, before, after);
    statuses.refresh('team/p');
  };

  it('are those of its plan while pods wait, and where they are afterwards', () => {
    last = plan;
    put('a', member('a'));
    put('b', member('b'));
    assert.deepEqual(statuses.nodes('team/p'), ['n2', 'n1']);
    assert.deepEqual(statuses.of('team/p'), { reason: plan.message, waiting: 2, released: 0 });
    statuses.setReason('team/p', 'each starts where its bytes are');
    put('a', member('a', { ...released, node: 'n7' }));
    assert.deepEqual(statuses.nodes('team/p'), ['n2', 'n1', 'n7'], 'one has no node yet');
    put('b', member('b', { ...released, node: 'n2' }));
    assert.deepEqual(statuses.nodes('team/p'), ['n7', 'n2']);
    assert.deepEqual(statuses.of('team/p'), { reason: 'each starts where its bytes are', waiting: 0, released: 2 });
    put('c', member('c'));
    assert.deepEqual(statuses.nodes('team/p'), ['n2', 'n1', 'n7'], 'scaled up: bytes in use stay');
    for (const name of ['a', 'b', 'c']) put(name, undefined);
    assert.equal(statuses.nodes('team/p'), undefined);
    assert.equal(statuses.of('team/p'), undefined);
  });

  it('are unknown before a plan is made, unless all pods run', () => {
    put('a', member('a'));
    assert.equal(statuses.nodes('team/p'), undefined, 'what is written stands');
    put('a', member('a', { ...released, node: 'n1' }));
    assert.deepEqual(statuses.nodes('team/p'), ['n1']);
  });

  it('stand as they are written for pods that were released without a plan', () => {
    put('a', member('a', released));
    statuses.setReason('team/p', 'each starts without waiting');
    assert.equal(statuses.nodes('team/p'), undefined, 'a leader before may have planned them');
    assert.deepEqual(statuses.of('team/p'), { reason: 'each starts without waiting', waiting: 0, released: 1 });
    put('b', member('b'));
    statuses.clearReason('team/p');
    assert.equal(statuses.nodes('team/p'), undefined);
    assert.equal(statuses.of('team/p'), undefined);
  });

  it('are reported when they change, and only then', () => {
    last = plan;
    put('a', member('a'));
    statuses.refresh('team/p');
    statuses.refresh('team/p');
    assert.deepEqual(heard, ['team/p']);
    put('a', undefined);
    assert.deepEqual(heard, ['team/p', 'team/p']);
  });
});
