import assert from 'node:assert/strict';
import { isRestricted, isWriteProtected, mountAt, parseMountInfo, readMountTable, showSame } from './mount_calls.ts';

const text = [
  '22 1 0:21 / / rw,relatime shared:1 - ext4 /dev/vda1 rw',
  '30 22 0:45 /views/abc /var/lib/hearth/c/mounts/abc/view ro,nosuid shared:9 master:3 - ext4 /dev/vdb rw',
  '31 22 0:45 /views/abc /pods/with\\040blank\\011and\\134more\\043 ro,nosuid - ext4 /dev/vdb rw',
  '32 22 0:46 / /pods/\\303\\274ml\u00c3\u00a4ut rw - fuse.hearth hearth:x ro,user_id=0',
  '33 22 0:47 / /stacked rw,idmapped - tmpfs tmpfs rw',
  '34 33 0:48 / /stacked ro - tmpfs tmpfs rw',
  '',
  '35 22 0:49',
].join('\n');

describe('the mount table', () => {
  const table = parseMountInfo(Buffer.from(text, 'latin1'));

  it('has a row for each whole line, with names as they are', () => {
    assert.equal(table.length, 6);
    assert.deepEqual(table[1], {
      id: 30,
      parent: 22,
      device: '0:45',
      type: 'ext4',
      root: '/views/abc',
      mountPoint: '/var/lib/hearth/c/mounts/abc/view',
      options: ['ro', 'nosuid'],
      superOptions: ['rw'],
    });
    assert.equal(table[2]?.mountPoint, '/pods/with blank\tand\\more#');
    assert.equal(table[3]?.mountPoint, '/pods/ümläut');
  });

  it('gives the uppermost of several mounts at one path, in whatever order they are listed', () => {
    assert.equal(mountAt(table, '/stacked')?.id, 34);
    assert.equal(mountAt([...table].reverse(), '/stacked')?.id, 34);
    assert.equal(mountAt(table, '/stacke'), undefined);
  });

  it('distinguishes read-only mounts and two views of the same folder', () => {
    const [root, view, copy] = table;
    assert.ok(root && view && copy);
    assert.equal(isRestricted(root, { noexec: false }), false);
    assert.equal(view.options.includes('ro'), true);
    assert.equal(showSame(view, copy), true);
    assert.equal(showSame(view, root), false);
    assert.deepEqual(table.map(isWriteProtected), [false, false, false, true, true, false]);
  });

  it('reads the table of this process', async () => {
    assert.ok(mountAt(await readMountTable(), '/'));
  });
});
