import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { cpSync, existsSync, linkSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { detach, RunDirectory } from '../demo/run_directory.ts';
import { needMounts } from '../demo/testing/demo_run.ts';
import { root } from './command.ts';
import { styleCheck } from './sources.ts';

const programs = ['binding/hearth.node', 'holder/hearth-holder', 'probe/hearth-probe'];

/** A clone of the working tree as it is, with what `make` installs and builds first: packages and programs. */
class Clone {
  readonly folder: string;

  constructor() {
    const build = join(root, 'build');
    mkdirSync(build, { recursive: true });
    // Hard links need the file system of the checkout.
    this.folder = mkdtempSync(join(build, 'c-'));
    const names = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: root });
    for (const name of names.toString().split('\0')) {
      if (name === '' || !existsSync(join(root, name))) continue;
      cpSync(join(root, name), join(this.folder, name), { verbatimSymlinks: true });
    }
    execFileSync('cp', ['--archive', '--link', join(root, 'node_modules'), this.folder]);
    for (const name of programs) {
      const program = join(this.folder, 'build/release', name);
      mkdirSync(dirname(program), { recursive: true });
      linkSync(join(build, 'release', name), program);
    }
    writeFileSync(join(this.folder, 'build/.setup'), '');
    const author = ['-c', 'user.name=test', '-c', 'user.email=test@example.com'];
    for (const args of [
      ['init', '--quiet'],
      ['add', '--all'],
      [...author, 'commit', '--quiet', '--message', 'all'],
    ])
      execFileSync('git', args, { cwd: this.folder, stdio: 'ignore' });
  }

  /** Runs a program in it, which must succeed; what it wrote. */
  async must(program: string, ...args: string[]): Promise<string> {
    const { HEARTH_RUN_DIR: _, MAKEFLAGS: __, ...env } = process.env;
    const child = spawn(program, args, { cwd: this.folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += text));
    const code = await new Promise((done) => child.once('close', done));
    assert.equal(code, 0, `${program} ${args.join(' ')}: ${output}`);
    return output;
  }

  async remove(): Promise<void> {
    const directory = new RunDirectory({ HEARTH_RUN_DIR: join(this.folder, '.hearth') });
    if (existsSync(directory.path)) await directory.claim(() => undefined);
    for (const target of directory.mountPoints()) await detach(target);
    rmSync(this.folder, { recursive: true, force: true });
  }
}

describe('the two commands of the README in one clone', () => {
  it('pass one after the other, twice, and git sees nothing of them', async function () {
    needMounts(this);
    this.timeout(60 * 60_000);
    const clone = new Clone();
    const origin = mkdtempSync(join(tmpdir(), 'hearth-origin-'));
    try {
      for (const [name, size] of Object.entries({ 'weights.safetensors': 5 * 2 ** 20 + 17, 'tool.ts': 300 }))
        writeFileSync(join(origin, name), randomBytes(size));
      /** What `make test` checks of the clone itself; its suites run beside this test. */
      const checks = async () => {
        await clone.must('node_modules/.bin/tsc', '-b');
        await clone.must('node_modules/.bin/biome', ...styleCheck);
        assert.match(await clone.must('make', '--old-file=build', 'verify'), /\n\d+ passed, 0 failed\n/);
      };
      // What was compiled stands there already.
      const demo = () => clone.must('make', '--old-file=build', 'run', 'ONESHOT=1', `SOURCE=${origin}`);
      for (const start of ['Cold', 'Warm']) {
        assert.ok((await demo()).includes(`${start} start`));
        await checks();
        assert.equal(await clone.must('git', 'status', '--porcelain'), '', start);
      }
    } finally {
      rmSync(origin, { recursive: true, force: true });
      await clone.remove();
    }
  });
});
