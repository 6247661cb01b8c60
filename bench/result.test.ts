import assert from 'node:assert/strict';
import type { Machine } from './machine.ts';
import { interval, type Measure, measure, median, reached, tableLines } from './result.ts';

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

  const besides = (measureOther: () => Promise<number>): Measure => ({
    id: 'x',
    what: '',
    unit: 'GiB/s',
    better: 'more',
    target: 1,
    sides: { value: async () => 4, baseline: async () => Number.NaN },
    beside: [
      { name: 'other', measure: measureOther },
      { name: 'absent', measure: undefined },
    ],
  });

  it('sets other programs beside the value, in the same runs, and says which are not installed', async () => {
    const row = await measure(
      besides(async () => 2),
      3,
      machine,
    );
    const [other, absent] = row.beside ?? [];
    assert.deepEqual(other, { name: 'other', value: 2, ratio: 2 });
    assert.equal(absent?.missing, 'not installed');
    assert.equal(reached(row), '-', 'there is no baseline here');
    assert.equal(tableLines(row).split('\n').length, 3);
  });

  it('goes on when another program fails, and says why', async () => {
    let runs = 0;
    const failing = async () => {
      ++runs;
      throw new Error('no such bucket\nand more');
    };
    const row = await measure(besides(failing), 3, machine);
    assert.equal(row.beside?.[0]?.missing, 'no such bucket');
    assert.equal(runs, 1);
  });

  it('takes no value that is no number', async () => {
    const sides = { value: async () => Number.NaN, baseline: async () => 1 };
    await assert.rejects(measure({ ...besides(async () => 1), sides }, 1, machine), /x has given no number/);
  });
});
