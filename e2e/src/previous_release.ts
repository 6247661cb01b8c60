import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { root, run } from './command.ts';

/**
 * What upgrades begin from: the first commit with these formats, which this release must go on to understand. The next
 * release takes the place of it when it is made; docs/testing.md says how, and previous_release.test.ts checks it.
 */
export const baseline = {
  release: '0.1.0',
  commit: '6da4a1137eff174e258dce724e9c3a412f6dd324',
  formats: { wire: 2, holder: 2, manifest: 1, residencyLog: 2, controlApi: 1, records: 1 },
  /** Of its control API. */
  apiFeatures: [] as readonly string[],
} as const;

const buildMs = 20 * 60_000;

export interface PreviousRelease {
  /** Its checkout, built. */
  folder: string;
  name: string;
  commit: string;
}

/**
 * The previous release: by its tag or commit, from the history of a clone, kept in the cache outside of it
 * (`HEARTH_CACHE`). `HEARTH_PREVIOUS` names another commit, which must be there. Without the history of the baseline:
 * why it is missing.
 */
export async function findPreviousRelease(clone = root): Promise<PreviousRelease | { missing: string }> {
  const named = process.env.HEARTH_PREVIOUS;
  const revision = named ?? baseline.commit;
  const commit = await commitOf(clone, revision);
  if (commit === undefined) {
    if (named !== undefined) throw new Error(`this clone has no commit ${named}, which HEARTH_PREVIOUS names`);
    const missing = `this clone does not have the previous release ${baseline.release} (commit ${revision}); fetch its whole history (git fetch --unshallow)`;
    return { missing };
  }
  if (commit === (await commitOf(clone, 'HEAD')))
    throw new Error(`the previous release ${revision} is this one; HEARTH_PREVIOUS must name an earlier commit`);
  const cache = process.env.HEARTH_CACHE ?? join(homedir(), '.cache/hearth');
  const folder = join(cache, `release-${commit.slice(0, 12)}`);
  if (!existsSync(folder)) await build(clone, commit, folder);
  return { folder, name: named ?? `${baseline.release}, ${commit.slice(0, 12)}`, commit };
}

/** The whole name of a commit; undefined where a clone does not have it, or there is no clone. */
export async function commitOf(clone: string, revision: string): Promise<string | undefined> {
  const { code, stdout } = await run('git', ['-C', clone, 'rev-parse', '--verify', '--quiet', `${revision}^{commit}`]);
  return code === 0 ? stdout.trim() : undefined;
}

/** Aside, so that what was interrupted is not taken for a release. */
async function build(clone: string, commit: string, folder: string): Promise<void> {
  const aside = `${folder}.building`;
  rmSync(aside, { recursive: true, force: true });
  mkdirSync(aside, { recursive: true });
  const steps = [
    `git -C '${clone}' archive ${commit} | tar -x -C '${aside}'`,
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
