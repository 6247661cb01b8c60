import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { needsMounts, needsPrograms, run, tool, until } from '@hearth/common/testing';
import { Cluster } from '@hearth/common/testing/agents';

/** By several processes at once, each with a file and a seed of its own. */
const fsxOperations = 100_000;
const fsxProcesses = 4;

/** Cases of pjdfstest that make block and character devices, which volumes refuse (docs/scratch.md). */
const casesOfDevices: Record<string, string[]> = {
  chmod: ['change_perm', 'enotdir_component', 'failed_chmod_unchanged_ctime', 'update_ctime'],
  chown: ['enotdir_component', 'lchown::enotdir_component'],
  link: [
    'changed_ctime_success',
    'eexist_dest_exists',
    'enotdir_component_either',
    'remove_link',
    'share_metadata',
    'unchanged_ctime_fails',
  ],
  mkdir: ['eexist_file_exists', 'enotdir_component'],
  mkfifo: ['eexist_file_exists', 'enotdir_component'],
  mknod: [
    'changed_times_success',
    'device_files',
    'eexist_file_exists',
    'enotdir_comp_char_block',
    'enotdir_component',
    'privileged::eexist_file_exists',
  ],
  open: ['eexist_file_exists'],
  rename: [
    'changed_ctime_success',
    'eexist_enotempty_to_non_empty',
    'eisdir_to_dir_from_not_dir',
    'enotdir_component_either',
    'enotdir_from_dir_to_not_dir',
    'preserve_metadata',
    'to_multiply_linked',
    'unchanged_ctime_failed',
  ],
  rmdir: ['eexist_enotempty_non_empty_dir', 'enotdir_component'],
  symlink: ['create_symlink', 'eexist_file_exists', 'enotdir_component'],
  truncate: ['enotdir_component'],
  unlink: [
    'enotdir_component',
    'remove_type',
    'unchanged_ctime_failed',
    'update_ctime_success',
    'update_mtime_ctime_success_folder',
  ],
  utimensat: ['changes_timestamps'],
};
const expectedFailures = [
  ...Object.entries(casesOfDevices).flatMap(([call, cases]) =>
    cases.flatMap((name) => [`${call}::${name}::block`, `${call}::${name}::char`]),
  ),
  // O_RDONLY | O_TRUNC of a running program, which keeps the bytes that it runs (docs/scratch.md).
  'open::etxtbsy',
];

/** Programs of others that test file systems, on one mount of a scratch volume. */
describe('a scratch volume, tested as any file system', () => {
  let cluster: Cluster;
  let target: string;
  let programs: { fsx: string; pjdfstest: string };

  before(async function () {
    needsMounts(this);
    programs = await needsPrograms(this, async () => ({ fsx: await tool('fsx'), pjdfstest: await tool('pjdfstest') }));
    cluster = await Cluster.start(['a'], { holder: true });
    await cluster.json('a', 'volume', 'create', 'kv');
    await until('an agent leads it', async () => {
      return (await cluster.json<{ state: string }>('a', 'volume', 'show', 'kv')).state === 'Ready';
    });
    target = cluster.mountPoint('kv');
    await cluster.json('a', 'mount', 'volume:kv', target);
  });
  after(async () => cluster?.close());

  it(`keeps what fsx writes in ${fsxOperations} operations`, async function () {
    this.timeout(20 * 60_000);
    const each = String(fsxOperations / fsxProcesses);
    const runs = Array.from({ length: fsxProcesses }, async (_, index) => {
      const seed = String(randomInt(2 ** 31));
      const words = ['-N', each, '-S', seed, '-P', cluster.folder, join(target, `fsx-${index}`)];
      const { code, stdout, stderr } = await run(programs.fsx, words, { timeoutMs: 19 * 60_000 });
      assert.equal(code, 0, `seed ${seed}: ${stdout.slice(-2000)}${stderr.slice(-2000)}`);
    });
    await Promise.all(runs);
  });

  it('passes pjdfstest', async () => {
    // Its users walk to the mount.
    chmodSync(cluster.folder, 0o755);
    const configuration = join(cluster.folder, 'pjdfstest.toml');
    const failures = expectedFailures.map((name) => JSON.stringify(name)).join(', ');
    const features = ['posix_fallocate', 'rename_ctime', 'utime_now', 'utimensat'].map(
      (name) => `[features.${name}]\n`,
    );
    const settings = `[settings]\nnaptime = 0.01\nexpected_failures = [${failures}]\n`;
    const users = '[dummy_auth]\nentries = [["nobody", "nogroup"], ["daemon", "daemon"]]\n';
    writeFileSync(configuration, `${features.join('')}${settings}${users}`);
    const folder = join(target, 'pjdfstest');
    mkdirSync(folder);
    chmodSync(folder, 0o777);
    const words = ['-c', configuration, '-p', folder];
    const { code, stdout, stderr } = await run(programs.pjdfstest, words, { timeoutMs: 540_000 });
    assert.equal(code, 0, `${stdout.slice(-6000)}${stderr.slice(-2000)}`);
  });
});
