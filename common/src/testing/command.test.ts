import assert from 'node:assert/strict';
import { must, run } from './command.ts';

describe('commands', () => {
  it('return their output and outcome', async () => {
    const { code, stdout, stderr } = await run('sh', ['-c', 'cat; echo no >&2; exit 3'], { input: 'yes' });
    assert.deepEqual([code, stdout, stderr], [3, 'yes', 'no\n']);
    await assert.rejects(must('sh', '-c', 'echo no >&2; exit 3'), /^Error: sh -c echo no >&2; exit 3: no$/);
  });

  it('are killed when they take too long', async () => {
    const { code, stderr } = await run('sleep', ['600'], { timeoutMs: 50 });
    assert.deepEqual([code, stderr], [128, '(ended by SIGKILL)']);
  });

  it('report a missing program without keeping the process alive', async () => {
    const source = `import { run } from ${JSON.stringify(`${import.meta.dirname}/command.ts`)};
      console.log((await run('/no/such/program', [])).code);`;
    const { code, stdout } = await run(process.execPath, ['--input-type=module', '-e', source]);
    assert.deepEqual([code, stdout], [0, '127\n']);
  });
});
