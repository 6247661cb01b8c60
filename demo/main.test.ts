import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { assertReadOnce, type DemoRun, DemoRuns, needMounts } from './testing/demo_run.ts';

const files = {
  'weights.safetensors': 9 * 1024 ** 2 + 17,
  'config.json': 300,
  'tokenizer/vocab.txt': 70_000,
  empty: 0,
};

describe('make run', () => {
  let runs: DemoRuns;
  let origin: string;

  beforeEach(() => {
    runs = new DemoRuns();
    origin = join(runs.folder, 'tiny-model');
    mkdirSync(join(origin, 'tokenizer'), { recursive: true });
    for (const [name, size] of Object.entries(files)) writeFileSync(join(origin, name), randomBytes(size));
  });
  afterEach(() => runs.close());

  const start = (environment: Record<string, string>, prefix: string[] = []): DemoRun =>
    runs.start({ SOURCE: origin, ...environment }, prefix);

  it('verifies every file on three agents, then starts warm', async function () {
    needMounts(this);
    const cold = start({ ONESHOT: '1' });
    assert.equal(await cold.ended, 0, cold.output());
    assert.match(cold.output(), /Cold start/);
    assertReadOnce(cold.output());
    assert.match(cold.output(), /^a +weights\.safetensors .*view +already here .*identical$/m);
    assert.match(cold.output(), /^b +weights\.safetensors .*passthrough +already here .*identical$/m);
    assert.match(cold.output(), /^c +weights\.safetensors .*daemon .*peers .*identical$/m);
    assert.match(cold.output(), /Verified: 12 files .*every byte is the origin's/);
    assert.deepEqual(runs.runDirectory().mountPoints(), []);

    const warm = start({ ONESHOT: '1' });
    assert.equal(await warm.ended, 0, warm.output());
    assert.match(warm.output(), /Warm start: the caches of all three agents hold all 9\.1 MiB/);
    assert.match(warm.output(), /Read from the origin: 0 B of 9\.1 MiB/);
    assert.match(warm.output(), /^c +weights\.safetensors .*passthrough +already here .*identical$/m);
  });

  it('fails when a file of the origin is not what is cached', async () => {
    const run = start({ ONESHOT: '1' });
    await run.says('Read from the origin');
    const weights = join(origin, 'weights.safetensors');
    const bytes = readFileSync(weights);
    bytes[5_000_000] = (bytes[5_000_000] ?? 0) ^ 1;
    writeFileSync(weights, bytes);
    assert.equal(await run.ended, 11, run.output());
    assert.match(run.output(), /MISMATCH on agent a: weights\.safetensors/);
    assert.match(run.output(), /FAILED: \d of 12 files/);
  });

  it('caches the new revision of an origin that changed between two runs', async () => {
    assert.equal(await start({ ONESHOT: '1' }).ended, 0);
    appendFileSync(join(origin, 'config.json'), 'more');
    const second = start({ ONESHOT: '1' });
    assert.equal(await second.ended, 0, second.output());
    assert.match(second.output(), /Partly warm start/);
  });

  it('shows the status until it is interrupted and ends in order', async () => {
    const run = start({ ONESHOT: '' });
    await run.says('3 nodes, 3 ready');
    run.child.kill('SIGINT');
    assert.equal(await run.ended, 0, run.output());
    assert.deepEqual(runs.runDirectory().mountPoints(), []);
  });

  it('clears what a killed run left', async () => {
    const killed = start({ ONESHOT: '' });
    await killed.says('3 nodes, 3 ready');
    const exited = once(killed.child, 'exit');
    killed.child.kill('SIGKILL');
    await exited;
    // The status command outlives it; without a reader it ends.
    killed.child.stdout?.destroy();
    const next = start({ ONESHOT: '1' });
    assert.equal(await next.ended, 0, next.output());
    assert.match(next.output(), /Ending process \d+, which a former run left behind/);
    assert.match(next.output(), /Warm start/);
  });

  it('reads through the engine where it may not mount, and says what is missing', async function () {
    const words = ['--inh-caps=-sys_admin', '--bounding-set=-sys_admin'];
    if (spawnSync('setpriv', [...words, 'true']).status !== 0) {
      console.log('      skipped: setpriv cannot drop CAP_SYS_ADMIN here');
      this.skip();
    }
    const run = start({ ONESHOT: '1' }, ['setpriv', ...words]);
    assert.equal(await run.ended, 0, run.output());
    assert.match(run.output(), /No mounts: the right to mount \(CAP_SYS_ADMIN\) is missing\. To get it: run/);
    assert.match(run.output(), /^c +weights\.safetensors .*engine .*peers .*identical$/m);
  });

  it('refuses a run directory that is in use, and a source that is not there', async () => {
    const first = start({ ONESHOT: '' });
    await first.says('Starting agents');
    const second = start({ ONESHOT: '1' });
    assert.equal(await second.ended, 9, second.output());
    assert.match(second.output(), /runs in .*set HEARTH_RUN_DIR/);
    await first.says('3 nodes, 3 ready');
    first.child.kill('SIGTERM');
    assert.equal(await first.ended, 0, first.output());
    const missing = start({ ONESHOT: '1', SOURCE: join(runs.folder, 'nothing') });
    assert.equal(await missing.ended, 3, missing.output());
  });
});
