import assert from 'node:assert/strict';
import type { Toleration } from './input.ts';
import { isTolerated, refusals } from './taints.ts';

describe('taints', () => {
  const taint = { key: 'dedicated', value: 'ml', effect: 'NoSchedule' };
  const cases: [Toleration, boolean][] = [
    [{ key: 'dedicated', operator: 'Equal', value: 'ml', effect: 'NoSchedule' }, true],
    [{ key: 'dedicated', value: 'ml' }, true],
    [{ key: 'dedicated', operator: 'Exists' }, true],
    [{ operator: 'Exists' }, true],
    [{ key: 'dedicated', value: 'db' }, false],
    [{ key: 'dedicated' }, false],
    [{ key: 'other', operator: 'Exists' }, false],
    [{ key: 'dedicated', operator: 'Exists', effect: 'NoExecute' }, false],
    [{ key: 'dedicated', operator: 'Gt', value: '1' }, false],
  ];
  for (const [toleration, tolerated] of cases) {
    it(`${JSON.stringify(toleration)} ${tolerated ? 'tolerates' : 'does not tolerate'} it`, () => {
      assert.equal(isTolerated(taint, [toleration]), tolerated);
    });
  }

  it('of effect PreferNoSchedule keep no pod away, being cordoned does', () => {
    const soft = { key: 'x', effect: 'PreferNoSchedule' };
    assert.deepEqual(refusals({ taints: [soft, taint], unschedulable: false }), [taint]);
    const [cordon] = refusals({ taints: [], unschedulable: true });
    assert.ok(cordon);
    assert.equal(isTolerated(cordon, [{ key: 'node.kubernetes.io/unschedulable', operator: 'Exists' }]), true);
    assert.equal(isTolerated(cordon, [{ key: 'dedicated', operator: 'Exists' }]), false);
  });
});
