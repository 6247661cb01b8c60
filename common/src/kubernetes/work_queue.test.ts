import assert from 'node:assert/strict';
import { TestClock } from '../testing/test_clock.ts';
import { WorkQueue } from './work_queue.ts';

describe('WorkQueue', () => {
  const take = async (queue: WorkQueue): Promise<string> => {
    assert.ok(queue.length > 0, 'nothing is ready');
    return (await queue.next()) as string;
  };

  it('hands out a key once however often it was added, in order', async () => {
    const queue = new WorkQueue({ clock: new TestClock() });
    for (const key of ['a', 'b', 'a', 'c', 'b']) queue.add(key);
    assert.deepEqual([await take(queue), await take(queue), await take(queue)], ['a', 'b', 'c']);
    assert.equal(queue.length, 0);
  });

  it('never processes a key concurrently, and does not lose it either', async () => {
    const queue = new WorkQueue({ clock: new TestClock() });
    queue.add('a');
    assert.equal(await take(queue), 'a');
    queue.add('a');
    queue.add('a');
    assert.equal(queue.length, 0, 'not while it is in work');
    queue.done('a');
    assert.equal(await take(queue), 'a');
    queue.done('a');
    assert.equal(queue.length, 0, 'once is enough');
  });

  it('wakes waiting workers, each with its own key', async () => {
    const queue = new WorkQueue({ clock: new TestClock() });
    const waiting = [queue.next(), queue.next()];
    queue.add('a');
    queue.add('b');
    assert.deepEqual(await Promise.all(waiting), ['a', 'b']);
  });

  it('adds delayed keys at the earliest of several times', async () => {
    const clock = new TestClock();
    const queue = new WorkQueue({ clock });
    queue.addAfter('a', 1_000);
    queue.addAfter('a', 5_000);
    queue.addAfter('a', 400);
    await clock.advance(399);
    assert.equal(queue.length, 0);
    await clock.advance(1);
    assert.equal(await take(queue), 'a');
    queue.done('a');
    await clock.advance(10_000);
    assert.equal(queue.length, 0, 'later times of the same key are forgotten');
    queue.addAfter('b', 0);
    assert.equal(queue.length, 1);
  });

  it('doubles the delay of a failing key up to the maximum, and resets when forgotten', async () => {
    const clock = new TestClock();
    const queue = new WorkQueue({ clock, ratePerSecond: 1_000 });
    const delays: number[] = [];
    for (let failure = 0; failure < 20; ++failure) {
      queue.addRateLimited('a');
      const before = clock.now();
      await clock.advance(clock.next ?? 0);
      delays.push(clock.now() - before);
      await take(queue);
      queue.done('a');
    }
    assert.deepEqual(delays.slice(0, 4), [3.75, 7.5, 15, 30], 'three quarters of 5, 10, 20, 40 ms by this chance');
    assert.equal(delays.at(-1), 225_000, 'three quarters of five minutes');
    assert.equal(queue.retries('a'), 20);
    queue.forget('a');
    assert.equal(queue.retries('a'), 0);
    queue.addRateLimited('a');
    assert.equal(clock.next, 3.75);
  });

  it('jitters delays, so that keys that failed together spread out', () => {
    const clock = new TestClock();
    const queue = new WorkQueue({ clock, firstDelayMs: 1_000 });
    clock.chance = 0;
    queue.addRateLimited('a');
    assert.equal(clock.next, 500);
    const other = new TestClock();
    other.chance = 0.999;
    new WorkQueue({ clock: other, firstDelayMs: 1_000 }).addRateLimited('b');
    assert.ok((other.next ?? 0) > 990);
  });

  it('limits the rate of all retries', async () => {
    const clock = new TestClock();
    const queue = new WorkQueue({ clock, ratePerSecond: 10, burst: 100 });
    for (let key = 0; key < 200; ++key) queue.addRateLimited(`key-${key}`);
    await clock.advance(50);
    assert.equal(queue.length, 100, 'the burst');
    await clock.advance(5_000);
    assert.equal(queue.length, 150);
    await clock.advance(5_000);
    assert.equal(queue.length, 200);
  });

  it('hands out ready keys after shutdown, accepts no more and releases workers', async () => {
    const clock = new TestClock();
    const queue = new WorkQueue({ clock });
    queue.add('a');
    queue.add('b');
    queue.addAfter('later', 100);
    assert.equal(await take(queue), 'a');
    queue.shutDown();
    queue.add('c');
    queue.addAfter('c', 10);
    assert.equal(await queue.next(), 'b');
    assert.equal(await queue.next(), undefined);
    assert.equal(clock.next, undefined, 'no timer is left');

    const idle = new WorkQueue({ clock });
    const waiting = [idle.next(), idle.next()];
    idle.shutDown();
    assert.deepEqual(await Promise.all(waiting), [undefined, undefined]);
  });
});
