import assert from 'node:assert/strict';
import { podSelector, selects } from './pod_census.ts';

describe('selector', () => {
  it('adds the values that a pod has of matchLabelKeys', () => {
    const selector = {
      matchLabels: { app: 'a' },
      matchExpressions: [{ key: 'old', operator: 'DoesNotExist', values: [] }],
    };
    const found = podSelector(selector, ['hash', 'absent'], { app: 'a', hash: '1' });
    assert.equal(selects(found, { app: 'a', hash: '1', absent: 'x' }), true);
    assert.equal(selects(found, { app: 'a', hash: '2' }), false);
    assert.equal(selects(found, { app: 'b', hash: '1' }), false);
    assert.equal(selects(found, { app: 'a', hash: '1', old: '' }), false);
  });

  it('that is absent selects nothing, and that is empty everything', () => {
    assert.equal(selects(podSelector(undefined, ['app'], { app: 'a' }), { app: 'a' }), false);
    assert.equal(selects(podSelector({ matchLabels: {}, matchExpressions: [] }, [], {}), {}), true);
  });
});
