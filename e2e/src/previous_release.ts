import { root } from '@hearth/common/testing';
import { builtRelease, commitOf } from '../../bench/release.ts';

/**
 * The start of upgrades: the first commit with these formats, which this release must go on to understand. The next
 * release takes its place when it is made; docs/testing.md says how, and previous_release.test.ts checks it.
 */
export const baseline = {
  release: '0.1.0',
  commit: '6da4a1137eff174e258dce724e9c3a412f6dd324',
  formats: { wire: 2, holder: 2, manifest: 1, residencyLog: 2, controlApi: 1, records: 1 },
  /** Of its control API. */
  apiFeatures: [] as readonly string[],
} as const;

export interface PreviousCommit {
  name: string;
  commit: string;
}

export interface PreviousRelease extends PreviousCommit {
  /** Its checkout, built. */
  folder: string;
}

/** The previous release, built; kept in the cache outside of the clone (`HEARTH_CACHE`). Else as `findPreviousCommit`. */
export async function findPreviousRelease(clone = root): Promise<PreviousRelease | { missing: string }> {
  const found = await findPreviousCommit(clone);
  return 'missing' in found ? found : { ...found, folder: await builtRelease(found.commit, clone) };
}

/**
 * The previous release: by its tag or commit, from the history of a clone. `HEARTH_PREVIOUS` names another commit, which
 * must be there. Without the history of the baseline: why it is missing.
 */
export async function findPreviousCommit(clone = root): Promise<PreviousCommit | { missing: string }> {
  const named = process.env.HEARTH_PREVIOUS;
  const revision = named ?? baseline.commit;
  const commit = await commitOf(revision, clone);
  if (commit === undefined) {
    if (named !== undefined) throw new Error(`this clone has no commit ${named}, which HEARTH_PREVIOUS names`);
    const missing = `this clone does not have the previous release ${baseline.release} (commit ${revision}); fetch its whole history (git fetch --unshallow)`;
    return { missing };
  }
  if (commit === (await commitOf('HEAD', clone)))
    throw new Error(`the previous release ${revision} is this one; HEARTH_PREVIOUS must name an earlier commit`);
  return { name: named ?? `${baseline.release}, ${commit.slice(0, 12)}`, commit };
}
