import assert from 'node:assert/strict';
import { type Clock, epochMs, sleep, systemClock, within } from './clock.ts';
import { RecurringWork } from './recurring_work.ts';
import { RunningClock, settle, TestClock, until } from './testing/index.ts';

for (const [name, make] of [
  ['that stands still', () => new TestClock()],
  ['that runs', () => new RunningClock()],
] as const) {
  describe(`a clock of tests ${name}`, () => {
    it('runs due timers in order when advanced, and no cancelled ones', async () => {
      const clock = make();
      const [began, date] = [clock.now(), epochMs(clock)];
      const ran: string[] = [];
      clock.schedule(3_600_000, () => ran.push('later'));
      clock.schedule(1_800_000, () => ran.push('sooner'));
      clock.schedule(1_800_000, () => ran.push('never'))();
      await clock.advance(1_700_000);
      assert.deepEqual(ran, []);
      await clock.advance(100_000);
      assert.deepEqual(ran, ['sooner']);
      await clock.advance(10 * 3_600_000);
      assert.deepEqual(ran, ['sooner', 'later']);
      assert.ok(clock.now() - began >= 37_800_000 && epochMs(clock) - date >= 37_800_000);
    });

    it('repeats until cancelled, and aborts signals', async () => {
      const clock = make();
      let runs = 0;
      const cancel = clock.every(1_000_000, () => runs++);
      const signal = within(clock, 1_500_000, new AbortController().signal);
      for (let step = 0; step < 3; step++) await clock.advance(1_000_000);
      assert.equal(runs, 3);
      assert.equal(signal.reason.name, 'TimeoutError');
      cancel();
      await clock.advance(5_000_000);
      assert.equal(runs, 3);
    });
  });
}

describe('a clock', () => {
  const clocks: [string, Clock][] = [
    ['of the system', systemClock],
    ['that runs', new RunningClock()],
  ];
  for (const [name, clock] of clocks)
    it(`${name} wakes sleepers, repeats and aborts in real time`, async () => {
      await sleep(clock, 1);
      let runs = 0;
      const cancel = clock.every(1, () => runs++);
      const signal = clock.timeout(1);
      await until('both', () => runs > 1 && signal.aborted);
      cancel();
      assert.equal(signal.reason.name, 'TimeoutError');
    });

  it('wakes a sleeper whose signal is aborted', async () => {
    const clock = new TestClock();
    const caller = new AbortController();
    const sleeping = sleep(clock, 1_000, caller.signal);
    caller.abort();
    await sleeping;
    await sleep(clock, 1_000, caller.signal);
    assert.equal(clock.next, undefined);
  });
});

describe('recurring work', () => {
  it('runs periodically and on demand, never concurrently, and is awaited at the end', async () => {
    const clock = new TestClock();
    const turns: PromiseWithResolvers<void>[] = [];
    const work = new RecurringWork(clock, 1_000, () => {
      const turn = Promise.withResolvers<void>();
      turns.push(turn);
      return turn.promise;
    });
    await clock.advance(999);
    assert.equal(turns.length, 0);
    work.begin();
    await clock.advance(1);
    assert.equal(turns.length, 1, 'the first is under way');
    turns[0]?.resolve();
    await work.settled();
    await clock.advance(1_000);
    assert.equal(turns.length, 2);
    let closed = false;
    const closing = work.close().then(() => {
      closed = true;
    });
    await settle();
    assert.equal(closed, false);
    turns[1]?.resolve();
    await closing;
    await clock.advance(5_000);
    assert.equal(turns.length, 2);
  });
});
