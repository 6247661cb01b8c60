import assert from 'node:assert/strict';
import { until } from './until.ts';

describe('waiting', () => {
  it("returns the condition's first result, and looks again until then", async () => {
    const answers = [undefined, false as const, 0];
    assert.equal(await until('a number', async () => answers.shift()), 0);
    assert.deepEqual(answers, []);
  });

  it("rejects with the condition's error", async () => {
    await assert.rejects(
      until(() => Promise.reject(new Error('it has ended'))),
      /^Error: it has ended$/,
    );
  });
});
