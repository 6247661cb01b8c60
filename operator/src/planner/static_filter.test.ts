import assert from 'node:assert/strict';
import { isTolerated } from '../kubernetes/index.ts';
import { refusals } from './static_filter.ts';

describe('taints', () => {
  const taint = { key: 'dedicated', value: 'ml', effect: 'NoSchedule' };
  it('of effect PreferNoSchedule keep no pod away, being cordoned does', () => {
    const soft = { key: 'x', effect: 'PreferNoSchedule' };
    assert.deepEqual(refusals({ taints: [soft, taint], unschedulable: false }), [taint]);
    const [cordon] = refusals({ taints: [], unschedulable: true });
    assert.ok(cordon);
    assert.equal(isTolerated(cordon, [{ key: 'node.kubernetes.io/unschedulable', operator: 'Exists' }]), true);
    assert.equal(isTolerated(cordon, [{ key: 'dedicated', operator: 'Exists' }]), false);
  });
});
