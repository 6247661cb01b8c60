import assert from 'node:assert/strict';
import { backOffMs } from './back_off.ts';
import { systemClock } from './clock.ts';

describe('backOffMs', () => {
  const limits = { firstMs: 100, longestMs: 1_000 };
  const drawn = (random: number, failures: number) =>
    backOffMs({ ...systemClock, random: () => random }, failures, limits);

  it('doubles until the longest pause', () => {
    assert.deepEqual(
      [0, 1, 2, 3, 4, 1e9].map((failures) => drawn(1, failures)),
      [100, 200, 400, 800, 1_000, 1_000],
    );
  });

  it('is drawn from the upper half', () => {
    assert.deepEqual([drawn(0, 1), drawn(0.5, 1)], [100, 150]);
  });
});
