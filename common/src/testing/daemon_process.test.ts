import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { DaemonProcess } from './daemon_process.ts';
import { TemporaryFolder } from './temporary_folder.ts';
import { until } from './until.ts';

const shell = (script: string, options = {}) => new DaemonProcess('sh', ['-c', script], options);

describe('programs that tests start', () => {
  let folder: TemporaryFolder;
  beforeEach(() => {
    folder = new TemporaryFolder('daemon');
  });
  afterEach(() => folder.remove());

  it('are awaited, with their output', async () => {
    const program = shell('echo here; exec sleep 600');
    await program.until('it is here', () => program.said.stdout === 'here\n');
    const { code, stdout } = await program.end();
    assert.deepEqual([code, stdout, program.endedByItself], [128, 'here\n', undefined]);
    assert.throws(() => program.pid, /^Error: sh does not run$/);
  });

  it('fail with their last output when they end instead, also from a log', async () => {
    const log = folder.file('log');
    for (const options of [{}, { log }]) {
      const program = shell('echo no such thing >&2; exit 3', options);
      const waiting = program.until('it is here', () => false);
      await assert.rejects(waiting, /^Error: sh ended with exit code 3; the last words of sh:\nno such thing\n$/);
      assert.equal(program.endedByItself?.code, 3);
    }
    assert.equal(readFileSync(log, 'utf8'), 'no such thing\n');
  });

  it('end with the process that started them, however that ends', async () => {
    const source = `import { DaemonProcess } from ${JSON.stringify(`${import.meta.dirname}/daemon_process.ts`)};
      console.log(new DaemonProcess('sleep', ['600']).pid);`;
    const starter = new DaemonProcess(process.execPath, ['--input-type=module', '-e', source]);
    await starter.until('it has started one', () => starter.said.stdout !== '');
    const started = Number(starter.said.stdout);
    assert.ok(isAlive(started));
    await starter.end('SIGKILL');
    await until('it has ended', () => !isAlive(started));
  });
});

function isAlive(pid: number): boolean {
  try {
    return !readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ');
  } catch {
    return false;
  }
}
