import assert from 'node:assert/strict';
import { TestClock } from '@hearth/common/kubernetes/testing';
import { until } from './node_pods.ts';

describe('until', () => {
  const { signal } = new AbortController();

  it('looks once a second by the clock, the last time when the time is over', async () => {
    const clock = new TestClock();
    let looks = 0;
    const held = until({ signal, clock }, 2_500, async () => {
      looks += 1;
      return false;
    });
    await clock.advance(10_000);
    assert.equal(await held, false);
    assert.equal(looks, 4);
    assert.equal(await until({ signal, clock }, 0, async () => true), true, 'it looks at least once');
  });

  it('is over when it is to end', async () => {
    const clock = new TestClock();
    const ending = new AbortController();
    const held = until({ signal: ending.signal, clock }, 60_000, async () => false);
    await clock.advance(1_500);
    ending.abort();
    await assert.rejects(held, { name: 'AbortError' });
    assert.equal(clock.next, undefined, 'no timer is left');
  });
});
