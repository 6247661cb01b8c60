import assert from 'node:assert/strict';
import fc from 'fast-check';
import { ServerClock } from './server_clock.ts';

const start = Date.UTC(2026, 0, 1);
/** Whole seconds, truncated, as Go writes them. */
const header = (ms: number) => new Date(ms).toUTCString();

/** A clock after these responses: request time by the local clock and round-trip time each. */
function learn(aheadMs: number, answers: readonly { at: number; wayMs: number; backMs: number }[]): ServerClock {
  const clock = new ServerClock();
  for (const { at, wayMs, backMs } of answers) {
    clock.note(header(at + wayMs + aheadMs), at, at + wayMs + backMs);
  }
  return clock;
}

describe("the API server's clock", () => {
  it('is the local clock until a response says otherwise', () => {
    const clock = new ServerClock();
    assert.equal(clock.aheadMs, 0);
    for (const nonsense of [undefined, '', 'yesterday']) clock.note(nonsense, start, start);
    assert.equal(clock.aheadMs, 0);
    const now = Date.now();
    const told = clock.date().getTime();
    assert.ok(told >= now && told <= Date.now());
  });

  it('is known within a second and the round-trip time, and is local where the two may agree', () => {
    const answer = fc.record({
      at: fc.integer({ min: start, max: start + 3_600_000 }),
      wayMs: fc.integer({ min: 0, max: 300 }),
      backMs: fc.integer({ min: 0, max: 300 }),
    });
    const ahead = fc.oneof(fc.constant(0), fc.integer({ min: -600_000, max: 600_000 }));
    const property = fc.property(ahead, fc.array(answer, { minLength: 1, maxLength: 20 }), (aheadMs, answers) => {
      const told = learn(aheadMs, answers).aheadMs;
      assert.ok(Math.abs(told - aheadMs) <= 1_600, `${told} for ${aheadMs}`);
      assert.ok(Math.abs(told) <= Math.abs(aheadMs), 'it never corrects too much');
    });
    fc.assert(property, { seed: 20_261_121 });
  });

  it('is not misled by a slow response', () => {
    const clock = learn(0, [{ at: start, wayMs: 30_000, backMs: 0 }]);
    assert.equal(clock.aheadMs, 0);
    const late = learn(0, [{ at: start, wayMs: 0, backMs: 30_000 }]);
    assert.equal(late.aheadMs, 0);
  });

  it('follows when a clock is set', () => {
    const clock = learn(300_000, [{ at: start, wayMs: 1, backMs: 1 }]);
    assert.ok(clock.aheadMs >= 299_000);
    clock.note(header(start + 10_000), start + 10_000, start + 10_002);
    assert.equal(clock.aheadMs, 0);
    clock.note(header(start - 60_000), start + 20_000, start + 20_002);
    assert.ok(clock.aheadMs <= -79_000 && clock.aheadMs >= -80_002, String(clock.aheadMs));
    clock.note(header(start), start + 30_000, start + 20_000);
    assert.ok(clock.aheadMs <= -79_000, 'and not when ours was set back while it was asked');
  });
});
