import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { root, run } from './command.ts';

const buildMs = 20 * 60_000;

/** The whole name of a commit or tag; nothing where the clone does not have it, or there is none. */
export async function commitOf(revision: string, clone = root): Promise<string | undefined> {
  const words = ['-C', clone, 'rev-parse', '--verify', '--quiet', `${revision}^{commit}`];
  return (await run('git', words).catch(() => '')).trim() || undefined;
}

/**
 * The folder of a checkout of `commit`, a whole name from the history of the clone, built: programs of agents and of the
 * mount holder. Kept in the cache outside of the clone (`HEARTH_CACHE`); building one takes minutes.
 */
export async function builtRelease(commit: string, clone = root): Promise<string> {
  const cache = process.env.HEARTH_CACHE ?? join(homedir(), '.cache/hearth');
  const folder = join(cache, `release-${commit.slice(0, 12)}`);
  if (existsSync(folder)) return folder;
  // Aside, so that what was interrupted is not taken for a release.
  const aside = `${folder}.building`;
  rmSync(aside, { recursive: true, force: true });
  mkdirSync(aside, { recursive: true });
  const steps = [
    `git -C '${clone}' archive ${commit} | tar -x -C '${aside}'`,
    `cd '${aside}' && scripts/setup.sh`,
    `cd '${aside}' && scripts/build-native.sh release hearth_binding hearth-holder`,
  ];
  for (const step of steps) {
    await run('bash', ['-c', `set -o pipefail; ${step}`], buildMs).catch((error: Error) => {
      throw new Error(`release ${commit} cannot be built: ${error.message}`);
    });
  }
  renameSync(aside, folder);
  return folder;
}
