import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { node, reporterOf, run } from './command.ts';

/** One test passes, the next one never ends. */
const hanging = `
  describe('a suite', () => {
    it('passes', () => {});
    it('hangs', (done) => { console.log('hanging now'); setInterval(() => {}, 1000); });
    it('comes later', () => {});
  });`;

describe('the reporter of tests that are ended', () => {
  let folder = '';
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'hearth-reporter-'));
  });
  afterEach(() => {
    rmSync(folder, { recursive: true, force: true });
  });

  it('keeps of a long reason the beginning, which says what, and the end, which says why', async () => {
    const file = join(folder, 'failing.test.cjs');
    const report = join(folder, 'report.json');
    const reason = `not within 300 s: ${'waited '.repeat(500)}because the disk is full`;
    writeFileSync(file, `it('fails', () => { throw new Error(${JSON.stringify(reason)}); });`);
    const mocha = ['node_modules/mocha/bin/mocha.js', '--no-config', file, ...reporterOf(report)];
    const { code } = await run(node, mocha, {
      quiet: true,
      timeoutMs: 60_000,
    });
    assert.equal(code, 1);
    const [failure] = JSON.parse(readFileSync(report, 'utf8')).failed as string[];
    assert.match(failure ?? '', /^fails: not within 300 s: waited .* \.\.\. .*because the disk is full$/);
    assert.ok((failure ?? '').length < 2000);
  });

  it('writes what has run, and names the test that it was in', async () => {
    const file = join(folder, 'hanging.test.cjs');
    const report = join(folder, 'report.json');
    writeFileSync(file, hanging);
    const mocha = [node, 'node_modules/mocha/bin/mocha.js', '--no-config', '--timeout', '0', file];
    const [program, ...options] = [...mocha, ...reporterOf(report)];
    // Ended once it hangs, as `run` ends what takes too long.
    const script = '"$@" > >(tee "$0") & until grep -q "hanging now" "$0"; do sleep 0.1; done; kill $!; wait $!';
    const { code } = await run('bash', ['-c', script, join(folder, 'output'), `${program}`, ...options], {
      quiet: true,
      timeoutMs: 5 * 60_000,
    });
    assert.equal(code, 1);
    const { stats, failed } = JSON.parse(readFileSync(report, 'utf8'));
    assert.equal(stats.passes, 1);
    assert.equal(stats.failures, 1);
    assert.deepEqual(failed, ['a suite hangs: ended by SIGTERM in the middle of it; what comes after it was not run']);
  });
});
