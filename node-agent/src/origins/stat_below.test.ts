import assert from 'node:assert/strict';
import { lstat, mkdir, mkdtemp, realpath, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { statBelow } from './stat_below.ts';

describe('statBelow', () => {
  let root: string;
  before(async () => {
    root = await realpath(await mkdtemp(join(tmpdir(), 'hearth-stat-')));
    await mkdir(join(root, 'in', 'sub dir\n'), { recursive: true });
    await writeFile(join(root, 'in', 'sub dir\n', 'ü'), 'x', { mode: 0 });
    await symlink('/etc/passwd', join(root, 'in', 'link'));
    await mkdir(join(root, 'out'));
    await writeFile(join(root, 'out', 'x'), 'secret');
  });
  after(async () => rm(root, { recursive: true }));

  it('equals lstat below the root', async () => {
    for (const path of ['sub dir\n/ü', 'sub dir\n', 'link']) {
      const [seen, expected] = await Promise.all([
        statBelow(join(root, 'in'), path),
        lstat(join(root, 'in', path), { bigint: true }),
      ]);
      assert.deepEqual(
        [seen.ino, seen.size, seen.mode, seen.ctimeNs],
        [expected.ino, expected.size, expected.mode, expected.ctimeNs],
      );
    }
    await assert.rejects(statBelow(join(root, 'in'), 'none'), { code: 'ENOENT' });
    assert.ok((await statBelow('/', 'etc')).isDirectory());
  });

  it('refuses a folder that was replaced by a link', async () => {
    await mkdir(join(root, 'in', 'model'));
    await writeFile(join(root, 'in', 'model', 'x'), 'x');
    await statBelow(join(root, 'in'), 'model/x');
    await rename(join(root, 'in', 'model'), join(root, 'in', 'moved'));
    await symlink('../out', join(root, 'in', 'model'));
    await assert.rejects(statBelow(join(root, 'in'), 'model/x'), { code: 'OriginChanged', message: /was replaced/ });
  });
});
