import assert from 'node:assert/strict';
import { run } from './command.ts';

describe('a step of the tests', () => {
  it('that takes too long is ended, and says so', async () => {
    const { code, output } = await run('sleep', ['600'], { quiet: true, timeoutMs: 200 });
    assert.equal(code, 1);
    assert.match(output, /sleep 600 was ended by SIGTERM, as it took longer than [0-9.]+ minutes/);
  });

  it('that something else ends says that', async () => {
    const { output } = await run('bash', ['-c', 'kill -KILL $$'], { quiet: true });
    assert.match(output, /was ended by SIGKILL\n$/);
  });
});
