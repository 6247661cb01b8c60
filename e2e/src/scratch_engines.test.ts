import assert from 'node:assert/strict';
import { join } from 'node:path';
import { needsMounts, run } from '@hearth/common/testing';
import { ThreeMounts } from './scratch/three_mounts.ts';

const cases = {
  direct_blocks: 'writes and reads blocks of 4 KiB past the page cache, in any order',
  scratch_file: 'allocates a scratch file of a process, which is unlinked while it is used',
  allocation: 'allocates space, keeps a length, and punches holes',
  links_and_renames: 'replaces no file by a link, nor by a rename that may not',
  unnamed_file: 'says that it has no files without a name',
  attributes: 'keeps attributes of users with the file',
  space: 'says how much space and how many files are left',
  mappings: 'maps files that another node has published, and keeps the mapped version',
  many_entries: 'lists a hundred thousand files that three nodes make in one folder',
  one_name: 'leaves the whole bytes of one writer when sixteen write one name',
  vllm_tier: 'takes whole files by sixteen threads past the page cache, and gives them on other nodes',
};

/** The system calls that inference engines make on their file tiers (docs/kv-engines.md). */
describe('a scratch volume under the system calls of engines', () => {
  const program = join(import.meta.dirname, 'scratch/engine_calls.py');
  let mounts: ThreeMounts;

  before(async function () {
    needsMounts(this);
    mounts = await ThreeMounts.start();
  });
  after(async () => mounts?.close());

  for (const [name, title] of Object.entries(cases)) {
    it(title, async () => {
      const { code, stderr } = await run('python3', [program, name, ...mounts.paths], { timeoutMs: 9 * 60_000 });
      assert.equal(code, 0, stderr);
    });
  }
});
