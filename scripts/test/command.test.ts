import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from '@hearth/common/testing';
import { run, runUntil } from './command.ts';

const isRunning = (pid: number): boolean => {
  try {
    // A process that has ended, and whose parent has not asked yet, is none.
    return !readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ');
  } catch {
    return false;
  }
};

const quiet = { quiet: true };

describe('a step of the tests', () => {
  let folder = '';
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'hearth-step-'));
  });
  afterEach(() => {
    rmSync(folder, { recursive: true, force: true });
  });

  it('that takes too long is ended, and says so', async () => {
    const { code, output } = await run('sleep', ['600'], { quiet: true, timeoutMs: 200 });
    assert.equal(code, 1);
    assert.match(output, /sleep 600 was ended by SIGTERM: it took longer than [0-9.]+ minutes/);
  });

  it('that takes too long is ended with what it has started', async () => {
    const pid = join(folder, 'pid');
    const script = `sleep 600 & echo $! > ${pid}.new; mv ${pid}.new ${pid}; wait`;
    // On a busy machine it has to have begun.
    for (let timeoutMs = 500; !existsSync(pid); timeoutMs *= 2) {
      const { code } = await run('bash', ['-c', script], { quiet: true, timeoutMs });
      assert.equal(code, 1);
    }
    const child = Number(readFileSync(pid, 'utf8'));
    assert.ok(child > 0);
    await until('it has ended', () => !isRunning(child));
  });

  it('ends although what it left behind holds its output', async () => {
    const { code, output } = await run('bash', ['-c', 'sleep 600 & echo $!'], quiet);
    const left = Number(/^\d+/.exec(output)?.[0]);
    try {
      assert.equal(code, 0);
      assert.ok(isRunning(left));
      assert.match(output, /ended with exit code 0: what it has started still holds its output/);
    } finally {
      process.kill(left);
    }
  });

  it('has all of its output, however much that is', async () => {
    const { output } = await run('bash', ['-c', 'head -c 20000000 /dev/zero | tr "\\\\0" x'], quiet);
    assert.equal(output.length, 20_000_000);
  });

  it('has no more time than all steps together', async () => {
    const { code } = await runUntil(performance.now() + 300)('sleep', ['600'], { quiet: true, timeoutMs: 600_000 });
    assert.equal(code, 1);
  });

  it('that something else ends says that', async () => {
    const { output } = await run('bash', ['-c', 'kill -KILL $$'], quiet);
    assert.match(output, /was ended by SIGKILL\n$/);
  });

  it('that does not exist says that', async () => {
    const { code, output } = await run('/no/such/command', [], quiet);
    assert.equal(code, 127);
    assert.match(output, /ENOENT/);
  });
});
