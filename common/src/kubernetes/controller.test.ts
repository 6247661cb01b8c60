import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { Writable } from 'node:stream';
import { HearthError } from '../error.ts';
import { createLogger, silentLogger } from '../logger.ts';
import { settle, TestClock } from '../testing/test_clock.ts';
import { type ControllerOptions, type ReconcileOutcome, reconcileChannel, runController } from './controller.ts';
import type { Watch } from './watch.ts';
import { WorkQueue } from './work_queue.ts';

describe('runController', () => {
  let clock: TestClock;
  let queue: WorkQueue;
  let stop: AbortController;
  beforeEach(() => {
    clock = new TestClock();
    queue = new WorkQueue({ clock });
    stop = new AbortController();
  });

  const run = (reconcile: ControllerOptions['reconcile'], more: Partial<ControllerOptions> = {}): Promise<void> => {
    const common = { name: 'test', queue, workers: 2, logger: silentLogger, signal: stop.signal, clock };
    return runController({ ...common, reconcile, ...more });
  };

  it('reconciles up to `workers` keys concurrently, each by one worker', async () => {
    const running = new Set<string>();
    let most = 0;
    let count = 0;
    const ended = run(async (key) => {
      assert.ok(!running.has(key), 'the same key twice at a time');
      running.add(key);
      most = Math.max(most, running.size);
      await settle();
      running.delete(key);
      count += 1;
    });
    for (let index = 0; index < 30; ++index) {
      queue.add(`key-${index % 5}`);
      if (index % 7 === 0) await settle();
    }
    for (let turn = 0; turn < 50; ++turn) await settle();
    stop.abort();
    await ended;
    assert.equal(most, 2);
    assert.ok(count >= 5);
  });

  it('retries after errors with growing delays, and resets them after a success', async () => {
    const outcomes: ReconcileOutcome[] = [];
    const observe = (outcome: unknown) => void outcomes.push(outcome as ReconcileOutcome);
    subscribe(reconcileChannel, observe);
    let failures = 3;
    const ended = run(async () => {
      failures -= 1;
      if (failures >= 0) throw new HearthError('Unavailable', 'not now');
    });
    queue.add('a');
    await clock.advance(1_000);
    assert.deepEqual(
      outcomes.map(({ result }) => result),
      ['error', 'error', 'error', 'success'],
    );
    unsubscribe(reconcileChannel, observe);
    assert.equal(queue.retries('a'), 0);
    stop.abort();
    await ended;
  });

  it('requeues after the requested time, with 10% jitter', async () => {
    const times: number[] = [];
    const ended = run(async () => {
      times.push(clock.now());
      return { requeueAfterMs: 1_000 };
    });
    queue.add('a');
    await clock.advance(3_500);
    assert.deepEqual(times, [0, 1_000, 2_000, 3_000], 'this chance is the middle');
    stop.abort();
    await ended;
  });

  it('logs conflicts at debug level, and other errors as warnings', async () => {
    const lines: string[] = [];
    const stream = new Writable({ write: (chunk, _encoding, done) => done(void lines.push(String(chunk))) });
    const logger = createLogger({ level: 'info', format: 'json', stream });
    let first = true;
    const ended = run(
      async (key) => {
        if (!first) return;
        first = key === 'a';
        throw new HearthError(key === 'a' ? 'Conflict' : 'NotFound', `no ${key}`);
      },
      { logger, workers: 1 },
    );
    queue.add('a');
    queue.add('b');
    await clock.advance(100);
    stop.abort();
    await ended;
    assert.equal(lines.length, 1);
    assert.match(lines[0] ?? '', /"level":"warn".*"no b"/);
  });

  it('aborts a slow reconcile, and continues with other keys if that does not help', async () => {
    const release = Promise.withResolvers<void>();
    const seen: string[] = [];
    const ended = run(
      async (key, signal) => {
        seen.push(key);
        if (key === 'patient') {
          await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
          throw new HearthError('Cancelled', 'as told');
        }
        if (key === 'deaf') await release.promise;
      },
      { workers: 1, timeoutMs: 1_000 },
    );
    queue.add('patient');
    queue.add('deaf');
    await clock.advance(999);
    assert.deepEqual(seen, ['patient']);
    await clock.advance(1);
    assert.deepEqual(seen, ['patient', 'deaf']);
    queue.add('deaf');
    queue.add('other');
    await clock.advance(11_000);
    assert.ok(seen.includes('other'), 'the worker is free');
    assert.equal(seen.filter((key) => key === 'deaf').length, 1, 'still in work, so not again');
    release.resolve();
    await clock.advance(2_000);
    assert.equal(seen.filter((key) => key === 'deaf').length, 2, 'now again');
    stop.abort();
    await ended;
  });

  it('aborts and awaits running reconciles at its end, and drops waiting keys', async () => {
    const seen: string[] = [];
    let finished = false;
    const ended = run(
      async (key, signal) => {
        seen.push(key);
        await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
        await settle();
        finished = true;
      },
      { workers: 1 },
    );
    queue.add('a');
    queue.add('b');
    await settle();
    stop.abort();
    await ended;
    assert.deepEqual(seen, ['a']);
    assert.ok(finished);
    assert.equal(clock.next, undefined, 'no timer is left');
  });

  it('starts its watches, works once all are listed, and stops the last one first at the end', async () => {
    const done: string[] = [];
    const lists = { watched: Promise.withResolvers<void>(), read: Promise.withResolvers<void>() };
    const followed = (name: string): Watch => ({
      synced: () => lists.watched.promise,
      start: (given) => {
        done.push(`start ${name}`);
        given.addAfter(`early ${name}`, 0);
        return () => void done.push(`stop ${name}`);
      },
    });
    const unlisted: Watch = { start: () => () => undefined };
    const ended = run(
      async (key, signal) => {
        done.push(key);
        if (key === 'first') await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
        if (key === 'first') done.push('ended');
      },
      {
        watches: [followed('a'), followed('b'), unlisted],
        reads: [{ synced: () => lists.read.promise }],
        first: () => {
          done.push('listed');
          return ['first'];
        },
      },
    );
    await settle();
    assert.deepEqual(done, ['start a', 'start b']);
    lists.watched.resolve();
    await settle();
    assert.deepEqual(done.splice(0), ['start a', 'start b'], 'what it only reads is not listed yet');
    lists.read.resolve();
    await settle();
    assert.deepEqual(done.splice(0), ['listed', 'early a', 'early b', 'first']);
    stop.abort();
    await ended;
    assert.deepEqual(done, ['ended', 'stop b', 'stop a']);
  });

  it('stops what it started when aborted before all lists are complete', async () => {
    const stopped: string[] = [];
    const failing: Watch = {
      synced: () => Promise.reject(new HearthError('Cancelled', 'ended')),
      start: (given) => {
        given.addAfter('a', 60_000);
        return () => void stopped.push('watch');
      },
    };
    await assert.rejects(
      run(async () => assert.fail('nothing is known yet'), { watches: [failing] }),
      { code: 'Cancelled' },
    );
    assert.deepEqual(stopped, ['watch']);
    assert.equal(clock.next, undefined, 'no timer is left');
  });
});
