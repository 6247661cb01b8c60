import assert from 'node:assert/strict';
import { gate } from '@hearth/common/resources';
import type { GatedMember } from './groups.ts';
import { type GroupOfPods, podGroups } from './pod_group.ts';
import { podOf } from './testing/objects.ts';

function member(name: string, labels: Record<string, string>, spec = {}): GatedMember {
  const gated = podOf(name, [], { metadata: { name, namespace: 'team', labels }, spec });
  return { namespace: 'team', name, uid: name, createdAt: 0, preload: 'p', node: '', deleting: false, gated };
}

function groups(pods: GatedMember[], fields: Partial<GroupOfPods> = {}) {
  const given = { key: 'team/p', pods, gate: gate.parse({}), datasets: ['team/a'], foreign: new Set<string>() };
  return podGroups({ ...given, ...fields });
}

describe('group of pods for the planner', () => {
  it('is one for pods of one template, with the labels that all of them have', () => {
    const made = groups([member('web-0', { app: 'web', index: '0' }), member('web-1', { app: 'web', index: '1' })]);
    assert.equal(made.length, 1);
    const [only] = made;
    assert.deepEqual([only?.key, only?.pods, only?.labels], ['team/p', ['web-0', 'web-1'], { app: 'web' }]);
    assert.deepEqual([only?.mode, only?.minPercent, only?.affinity], ['Wait', 100, 'Preferred']);
    assert.deepEqual(only?.datasets, ['team/a']);
  });

  it('are several where templates differ', () => {
    const gpu = { nodeSelector: { gpu: 'yes' } };
    const made = groups([member('leader', {}), member('worker-0', {}, gpu), member('worker-1', {}, gpu)]);
    assert.deepEqual(
      made.map(({ key, pods }) => [key, pods]),
      [
        ['team/p', ['leader']],
        ['team/p#2', ['worker-0', 'worker-1']],
      ],
    );
  });

  it('report to the planner volumes that it knows nothing of', () => {
    const pods = [member('a', {})];
    assert.deepEqual(groups(pods)[0]?.unmodelled, []);
    assert.deepEqual(groups(pods, { foreign: new Set(['a']) })[0]?.unmodelled, ['volumes of other drivers']);
  });
});
