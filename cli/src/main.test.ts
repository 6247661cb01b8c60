import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Entry } from '@hearth/common/generated/hearth/v1/control.ts';
import { elapse } from '@hearth/common/testing';
import { FakeAgent } from './testing/fake_agent.ts';
import { sampleJob } from './testing/samples.ts';

const launcher = fileURLToPath(new URL('../bin/hearth', import.meta.url));

interface Ended {
  code: number | null;
  out: string;
  err: string;
}

/** The real program through its launcher. */
describe('bin/hearth', () => {
  let directory: string;
  let agent: FakeAgent;
  const children: ChildProcess[] = [];

  before(async () => {
    directory = await mkdtemp(join(tmpdir(), 'hearth-bin-'));
    agent = await FakeAgent.start({
      createWarmJob: () => sampleJob(),
      async *watchWarmJob() {
        for (;;) {
          yield sampleJob();
          await elapse(20, 'a pace');
        }
      },
      *listEntries() {
        for (let number = 0; number < 5000; number++) yield Entry.fromPartial({ path: `file-${number}`, kind: 'file' });
      },
    });
  });
  after(async () => {
    for (const child of children) child.kill('SIGKILL');
    await agent.stop();
    await rm(directory, { recursive: true });
  });

  function start(words: string[], program = launcher): { child: ChildProcess; ended: Promise<Ended> } {
    const environment = { ...process.env, HEARTH_SOCKET: agent.socket };
    const child = spawn(program, words, { env: environment, stdio: ['ignore', 'pipe', 'pipe'], timeout: 300_000 });
    children.push(child);
    const texts = { out: '', err: '' };
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      texts.out += text;
    });
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      texts.err += text;
    });
    const ended = once(child, 'close').then(([code]) => ({ code: code as number | null, ...texts }));
    return { child, ended };
  }

  it('uses the name it was called by', async () => {
    const path = join(directory, 'kubectl-hearth');
    await symlink(launcher, path);
    const { code, out } = await start(['version', '--help'], path).ended;
    assert.equal(code, 0);
    assert.match(out, /^Usage: kubectl hearth version /);
  });

  it('exits with the code of the error', async () => {
    const { code, err } = await start(['mounts', '--socket', join(directory, 'absent')]).ended;
    assert.equal(code, 6);
    assert.match(err, /^hearth: no agent listens on /);
  });

  it('detaches at the first Ctrl-C', async () => {
    const { child, ended } = start(['warm', 'llama']);
    await once(child.stdout ?? child, 'data');
    child.kill('SIGINT');
    const { code, err } = await ended;
    assert.equal(code, 130);
    assert.match(err, /^The job warm-llama-1 continues\./);
  });

  it('exits quietly when its reader goes away', async () => {
    const script = `"$0" ls llama | head -n 1; exit "\${PIPESTATUS[0]}"`;
    const environment = { ...process.env, HEARTH_SOCKET: agent.socket };
    await new Promise<void>((resolve, reject) => {
      execFile('bash', ['-c', script, launcher], { env: environment, timeout: 300_000 }, (error, stdout, stderr) => {
        if (error !== null) return reject(error);
        assert.equal(stdout, 'file-0\n');
        assert.equal(stderr, '');
        resolve();
      });
    });
  });
});
