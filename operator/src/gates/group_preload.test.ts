import assert from 'node:assert/strict';
import { gate } from '@hearth/common/resources';
import { isOfGate, newPreload, nodesChange, preloadChange } from './group_preload.ts';
import type { GatedMember } from './groups.ts';
import { ownedBy, podOf } from './testing/objects.ts';

function member(name: string, owner?: string): GatedMember {
  const references = owner === undefined ? {} : { ownerReferences: ownedBy(owner) };
  const gated = podOf(name, [], { metadata: { name, namespace: 'team', uid: `uid-${name}`, ...references } });
  return { namespace: 'team', name, uid: `uid-${name}`, createdAt: 0, preload: 'p', node: '', deleting: false, gated };
}

const place = { namespace: 'team', name: 'p' };
const wait = gate.parse({});

describe('CachePreload of a group', () => {
  it('belongs to the controller of its pods, else to the pods', () => {
    const owned = newPreload(place, [member('a', 'web'), member('b', 'web')], wait, ['llama']);
    assert.deepEqual(owned.metadata.ownerReferences, [
      {
        apiVersion: 'apps/v1',
        kind: 'ReplicaSet',
        name: 'web',
        uid: 'uid-web',
        controller: false,
        blockOwnerDeletion: false,
      },
    ]);
    assert.equal(owned.spec.placement.gatedPods?.group, 'ReplicaSet/web');
    assert.ok(isOfGate(owned));
    const bare = newPreload(place, [member('a')], wait, ['llama']);
    assert.deepEqual(
      bare.metadata.ownerReferences?.map(({ kind, uid }) => [kind, uid]),
      [['Pod', 'uid-a']],
    );
  });

  it('is ready when its gate is', () => {
    assert.equal(newPreload(place, [member('a')], wait, []).spec.readyWhen, 'Stored');
    assert.equal(newPreload(place, [member('a')], gate.parse({ readyWhen: 'Memory' }), []).spec.readyWhen, 'Memory');
  });

  it('goes before what is preloaded for later when pods wait for it', () => {
    assert.equal(newPreload(place, [member('a')], wait, []).spec.priority, 200);
    assert.equal(newPreload(place, [member('a')], gate.parse({ mode: 'Prefer' }), []).spec.priority, 100);
  });

  it('is changed only when it must, and keeps the owners that it has', () => {
    const made = newPreload(place, [member('a', 'web')], wait, ['llama']);
    const present = { ...made, metadata: { ...made.metadata, uid: 'u', resourceVersion: '7' } };
    assert.equal(preloadChange(present, [member('b', 'web')], wait, ['llama']), undefined);
    const more = preloadChange(present, [member('c', 'other')], wait, ['llama']) as typeof present;
    assert.deepEqual(
      more.metadata.ownerReferences?.map(({ name }) => name),
      ['web', 'other'],
    );
    assert.deepEqual([more.metadata.uid, more.metadata.resourceVersion], ['u', '7']);
    assert.equal(more.metadata.finalizers, undefined, 'not ours alone to write');
    const other = preloadChange(present, [member('a', 'web')], gate.parse({ timeout: '1h' }), ['llama']);
    assert.equal((other as typeof present).spec.placement.gatedPods?.gate.timeout, '1h');
  });

  it('names the nodes of its plan, which no other change removes', () => {
    const made = newPreload(place, [member('a', 'web')], wait, ['llama']);
    const present = { ...made, metadata: { ...made.metadata, uid: 'u', resourceVersion: '7' } };
    const gatedPods = { nodes: ['n2', 'n1'] };
    assert.deepEqual(nodesChange(present, ['n2', 'n1'], { inOrder: true }), {
      metadata: { uid: 'u' },
      spec: { placement: { gatedPods } },
    });
    const placement = { gatedPods: { ...made.spec.placement.gatedPods, ...gatedPods } };
    const planned = { ...present, spec: { ...made.spec, placement } } as typeof present;
    assert.equal(nodesChange(planned, ['n2', 'n1'], { inOrder: true }), undefined);
    assert.notEqual(nodesChange(planned, ['n1', 'n2'], { inOrder: true }), undefined);
    assert.equal(nodesChange(planned, ['n1', 'n2'], { inOrder: false }), undefined);
    assert.notEqual(nodesChange(planned, [], { inOrder: false }), undefined, 'a plan without nodes is one');
    assert.equal(preloadChange(planned, [member('a', 'web')], wait, ['llama']), undefined);
    const other = preloadChange(planned, [member('a', 'web')], wait, ['qwen']) as typeof present;
    assert.ok(!('nodes' in (other.spec.placement.gatedPods ?? {})), 'a merge leaves them');
  });

  it('has no owners when there are too many to name: it must not go with some of them', () => {
    const pods = Array.from({ length: 51 }, (_, index) => member(`pod-${index}`));
    const first = newPreload(place, pods.slice(0, 50), wait, ['llama']);
    assert.equal(first.metadata.ownerReferences?.length, 50);
    const more = preloadChange(first, pods.slice(50), wait, ['llama']) as typeof first;
    assert.deepEqual(more.metadata.ownerReferences, []);
    const present = { ...first, metadata: { ...first.metadata, ownerReferences: [] } };
    assert.equal(preloadChange(present, pods.slice(0, 1), wait, ['llama']), undefined, 'they are not named again');
  });

  it('of another owner is none of ours', () => {
    const { metadata, ...rest } = newPreload(place, [member('a')], wait, []);
    const { labels: _, ...unlabelled } = metadata;
    assert.equal(isOfGate({ ...rest, metadata: unlabelled }), false);
  });
});
