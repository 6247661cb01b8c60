import assert from 'node:assert/strict';
import { expressionHolds, isTolerated, type Toleration } from './node_matching.ts';

describe('expressions of labels', () => {
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
});

describe('tolerations', () => {
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
});
