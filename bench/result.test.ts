import assert from 'node:assert/strict';
import type { Machine } from './machine.ts';
import { interval, measure, median } from './result.ts';

const machine: Machine = { cores: 1, memoryGiB: 1, kernel: '', fileSystem: '', disk: '', node: '' };

describe('bench results', () => {
  it('takes the middle of an odd number and the mean of the two middles of an even one', () => {
    assert.equal(median([3, 1, 2]), 2);
    assert.equal(median([4, 1, 2, 3]), 2.5);
  });

  it('says between which samples the median lies', () => {
    const upTo = (count: number) => Array.from({ length: count }, (_, index) => count - index);
    assert.deepEqual(interval(upTo(5)), [1, 5], '94 %');
    assert.deepEqual(interval(upTo(7)), [1, 7], '[2, 6] would be 87.5 %');
    assert.deepEqual(interval(upTo(8)), [2, 7], '93 %');
    assert.deepEqual(interval(upTo(25)), [8, 18], '96 %');
    assert.deepEqual(interval([3]), [3, 3]);
  });

  it('alternates value and baseline, and turns a ratio of times round', async () => {
    const order: string[] = [];
    const row = await measure(
      {
        id: 'x',
        what: '',
        unit: 's',
        better: 'less',
        target: 1,
        sides: {
          value: async () => order.push('value') * 0 + 2,
          baseline: async () => order.push('baseline') * 0 + 4,
        },
      },
      2,
      machine,
    );
    assert.deepEqual(order, ['baseline', 'value', 'value', 'baseline']);
    assert.equal(row.ratio, 2);
  });
});
