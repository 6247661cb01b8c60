import assert from 'node:assert/strict';
import { Meeting, type Pair } from './meeting.ts';
import type { Measure } from './result.ts';

const measureOf = (id: string, value: number): Measure => ({
  id,
  what: '',
  unit: '',
  better: 'more',
  target: 1,
  sides: { value: async () => value, baseline: async () => 1 },
});

describe('two releases that are measured row by row', () => {
  it('measures a row once both are ready for it, whichever comes first', async () => {
    const seen: [string, number, number][] = [];
    const meeting = new Meeting(async (pair: Pair) => {
      seen.push([pair.this.id, await pair.this.sides.value(0), await pair.other.sides.value(0)]);
    });
    const first = meeting.row('other', measureOf('a', 2));
    await new Promise(setImmediate);
    assert.deepEqual(seen, [], 'the other one is not there yet');
    await Promise.all([first, meeting.row('this', measureOf('a', 1))]);
    await Promise.all([meeting.row('this', measureOf('b', 3)), meeting.row('other', measureOf('b', 4))]);
    assert.deepEqual(seen, [
      ['a', 1, 2],
      ['b', 3, 4],
    ]);
  });

  it('ends both with an error when one of them has failed, now and later', async () => {
    const meeting = new Meeting(async () => assert.fail('nothing is measured'));
    const waiting = meeting.row('this', measureOf('a', 1));
    meeting.fail(new Error('no disk'));
    await assert.rejects(waiting, /no disk/);
    await assert.rejects(meeting.row('this', measureOf('b', 1)), /no disk/);
  });

  it('ends both with an error when they come to different rows, or measuring fails', async () => {
    const other = new Meeting(async () => assert.fail('nothing is measured'));
    const both = [other.row('this', measureOf('a', 1)), other.row('other', measureOf('b', 1))];
    for (const each of both) await assert.rejects(each, /other rows: a of this, b of other/);
    const failing = new Meeting(async () => {
      throw new Error('no reader');
    });
    const rows = [failing.row('this', measureOf('a', 1)), failing.row('other', measureOf('a', 1))];
    for (const each of rows) await assert.rejects(each, /no reader/);
  });
});
