import assert from 'node:assert/strict';
import { RecurringWork } from './recurring_work.ts';
import { settle, TestClock, until } from './testing/index.ts';

describe('RecurringWork', () => {
  it('runs periodically, never concurrently, and not after its end', async () => {
    const clock = new TestClock();
    const ends: (() => void)[] = [];
    const work = new RecurringWork(clock, 1000, () => new Promise((resolve) => ends.push(resolve)));
    await clock.advance(1000);
    await clock.advance(1000);
    assert.equal(ends.length, 1, 'the first is under way');
    ends[0]?.();
    await work.settled();
    work.begin();
    assert.equal(ends.length, 2);
    const closing = work.close();
    ends[1]?.();
    await closing;
    work.begin();
    await clock.advance(5000);
    await settle();
    assert.equal(ends.length, 2);
  });

  it('runs once more for any number of requests during a run', async () => {
    const clock = new TestClock();
    const ends: (() => void)[] = [];
    const work = new RecurringWork(clock, 1000, () => new Promise((resolve) => ends.push(resolve)));
    work.request();
    for (let times = 0; times < 3; times++) work.request();
    work.begin();
    assert.equal(ends.length, 1);
    ends[0]?.();
    await until('the second run', () => ends.length === 2);
    ends[1]?.();
    await work.settled();
    assert.equal(ends.length, 2);
    work.request();
    work.request();
    const closing = work.close();
    ends[2]?.();
    await closing;
    assert.equal(ends.length, 3, 'a closed one begins nothing');
  });
});
