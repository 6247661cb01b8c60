import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { root, run } from './command.ts';

/** The first state of 0.1.0 whose formats later ones must go on to understand. The next release takes the place of it. */
const previousRelease = '6da4a1137eff174e258dce724e9c3a412f6dd324';

const buildMs = 20 * 60_000;

/**
 * The checkout of the previous release, built: by its tag or commit, from the history of this clone, kept in the cache
 * outside of it (`HEARTH_CACHE`). `HEARTH_PREVIOUS` names another commit. This release itself where the clone does not
 * have it.
 */
export async function findPreviousRelease(): Promise<{ folder: string; name: string }> {
  const name = process.env.HEARTH_PREVIOUS ?? previousRelease;
  const found = await git('rev-parse', '--verify', '--quiet', `${name}^{commit}`);
  if (found.code !== 0) {
    if (process.env.HEARTH_PREVIOUS !== undefined) throw new Error(`this clone has no commit ${name}`);
    return { folder: root, name: `this release, as the clone does not have ${name}` };
  }
  const commit = found.stdout.trim();
  const cache = process.env.HEARTH_CACHE ?? join(homedir(), '.cache/hearth');
  const folder = join(cache, `release-${commit.slice(0, 12)}`);
  if (!existsSync(folder)) await build(commit, folder);
  return { folder, name };
}

/** Aside, so that what was interrupted is not taken for a release. */
async function build(commit: string, folder: string): Promise<void> {
  const aside = `${folder}.building`;
  rmSync(aside, { recursive: true, force: true });
  mkdirSync(aside, { recursive: true });
  const steps = [
    `git -C '${root}' archive ${commit} | tar -x -C '${aside}'`,
    `cd '${aside}' && scripts/setup.sh`,
    `cd '${aside}' && scripts/build-native.sh release hearth_binding hearth-holder`,
  ];
  for (const step of steps) {
    const { code, stdout, stderr } = await run('bash', ['-c', `set -o pipefail; ${step}`], { timeoutMs: buildMs });
    if (code !== 0)
      throw new Error(`the previous release cannot be built (${step}): ${(stdout + stderr).slice(-2000)}`);
  }
  renameSync(aside, folder);
}

const git = (...words: string[]) => run('git', ['-C', root, ...words]);
