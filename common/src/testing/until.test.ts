import assert from 'node:assert/strict';
import { until } from './until.ts';

describe('waiting', () => {
  it('gives what the condition gives at last, and looks again until then', async () => {
    const answers = [undefined, false as const, 0];
    assert.equal(await until('a number', async () => answers.shift()), 0);
    assert.deepEqual(answers, []);
  });

  it('ends with what the condition throws', async () => {
    await assert.rejects(
      until(() => Promise.reject(new Error('it has ended'))),
      /^Error: it has ended$/,
    );
  });
});
