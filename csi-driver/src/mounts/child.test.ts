import assert from 'node:assert/strict';
import { TestClock } from '@hearth/common/testing';
import { runChild } from './child.ts';

describe('runChild', () => {
  it('gives the exit code and what was written to standard error, on one line', async () => {
    const outcome = await runChild('sh', ['-c', 'echo one >&2; echo two >&2; echo out; exit 3'], {
      deadlineMs: 300_000,
    });
    assert.deepEqual(outcome, { code: 3, late: false, output: 'out', message: 'one; two' });
  });

  it('kills at the deadline', async () => {
    const clock = new TestClock();
    const running = runChild('sleep', ['600'], { deadlineMs: 20_000, clock });
    await clock.advance(19_999);
    assert.equal(clock.next, 1, 'it runs until then');
    await clock.advance(1);
    assert.deepEqual(await running, { code: null, late: true, output: '', message: '' });
  });

  it('bounds what it keeps, and gives no environment but PATH and the locale', async () => {
    const { message } = await runChild('sh', ['-c', 'env >&2; head -c 100000 /dev/zero | tr "\\0" x >&2'], {
      deadlineMs: 300_000,
    });
    assert.ok(message.length <= 2048);
    assert.match(message, /LC_ALL=C/);
    assert.doesNotMatch(message, /HOME=/);
  });

  it('names a program that is not there', async () => {
    await assert.rejects(runChild('no-such-program', [], { deadlineMs: 1000 }), {
      code: 'Unsupported',
      message: /^no-such-program cannot be run/,
    });
  });
});
