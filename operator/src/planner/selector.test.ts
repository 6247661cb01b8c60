import assert from 'node:assert/strict';
import { expressionHolds, podSelector, selects } from './selector.ts';

describe('selector', () => {
  const cases: [operator: string, values: string[], holds: (string | undefined)[], fails: (string | undefined)[]][] = [
    ['In', ['a', 'b'], ['a', 'b'], ['c', '', undefined]],
    ['NotIn', ['a', 'b'], ['c', '', undefined], ['a', 'b']],
    ['Exists', [], ['a', ''], [undefined]],
    ['DoesNotExist', [], [undefined], ['a', '']],
    ['Gt', ['9'], ['10', '+11'], ['9', '-10', 'ten', '1.5', '', undefined, '9223372036854775808']],
    ['Lt', ['9'], ['8', '-10'], ['9', '10', 'ten', undefined, '-9223372036854775809']],
    ['Gt', ['nine'], [], ['10', undefined]],
    ['Gt', ['1', '2'], [], ['3']],
    ['Is', ['a'], [], ['a', undefined]],
  ];
  for (const [operator, values, holds, fails] of cases) {
    it(`${operator} ${values}`, () => {
      const expression = { key: 'x', operator, values };
      for (const value of holds) assert.equal(expressionHolds(expression, value), true, String(value));
      for (const value of fails) assert.equal(expressionHolds(expression, value), false, String(value));
    });
  }

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
