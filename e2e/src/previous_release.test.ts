import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { root, run, skip } from '@hearth/common/testing';
import { commitOf } from '../../bench/release.ts';
import { formatVersions } from './format_versions.ts';
import { baseline, findPreviousRelease } from './previous_release.ts';

const git = (...words: string[]) => run('git', ['-C', root, ...words]);

describe('the previous release', () => {
  it('is an ancestor of this one, with the formats that it is named for', async function () {
    if ((await commitOf(baseline.commit)) === undefined) skip(this, `no commit ${baseline.commit} in this clone`);
    assert.equal((await git('merge-base', '--is-ancestor', baseline.commit, 'HEAD')).code, 0);
    const then = await formatVersions(async (path) => {
      const { code, stdout } = await git('show', `${baseline.commit}:${path}`);
      return code === 0 ? stdout : undefined;
    });
    assert.deepEqual(then, baseline.formats);
  });

  it('is understood: no format of this one is more than a version ahead', async () => {
    const now = await formatVersions(async (path) => readFileSync(join(root, path), 'utf8'));
    for (const [format, version] of Object.entries(now)) {
      const before = baseline.formats[format as keyof typeof now];
      assert.ok(version === before || version === before + 1, `${format}: ${version} after ${before}`);
    }
  });

  describe('in a clone without its history', () => {
    let clone: string;
    const named = process.env.HEARTH_PREVIOUS;
    before(async () => {
      clone = mkdtempSync(join(tmpdir(), 'hearth-clone-'));
      delete process.env.HEARTH_PREVIOUS;
    });
    afterEach(() => {
      delete process.env.HEARTH_PREVIOUS;
    });
    after(() => {
      if (named !== undefined) process.env.HEARTH_PREVIOUS = named;
      rmSync(clone, { recursive: true });
    });
    const commit = async () => {
      assert.equal((await run('git', ['init', '--quiet', clone])).code, 0);
      const author = ['-c', 'user.name=a', '-c', 'user.email=a@localhost'];
      const made = await run('git', ['-C', clone, ...author, 'commit', '--quiet', '--allow-empty', '-m', 'only']);
      assert.equal(made.code, 0, made.stderr);
    };

    it('is missing, with what to do, and never this one', async () => {
      for (const prepare of [async () => undefined, commit]) {
        await prepare();
        assert.deepEqual(await findPreviousRelease(clone), {
          missing: `this clone does not have the previous release 0.1.0 (commit ${baseline.commit}); fetch its whole history (git fetch --unshallow)`,
        });
      }
      process.env.HEARTH_PREVIOUS = 'v9';
      await assert.rejects(findPreviousRelease(clone), /this clone has no commit v9, which HEARTH_PREVIOUS names/);
      process.env.HEARTH_PREVIOUS = 'HEAD';
      await assert.rejects(findPreviousRelease(clone), /the previous release HEAD is this one/);
    });
  });
});
