import assert from 'node:assert/strict';
import { TemporaryFolder } from '@hearth/common/testing';
import type { Statistics } from '@hearth/engine';
import { withFreeSpace } from './free_space.ts';

describe('free space of cache directories', () => {
  const of = async (path: string, fileSystemFreeBytes: bigint) => {
    const directory = { path, budgetBytes: 1n, usedBytes: 0n, freeFloorBytes: 0n, fileSystemFreeBytes };
    const { directories } = await withFreeSpace({ directories: [directory] } as unknown as Statistics);
    return directories[0]?.fileSystemFreeBytes;
  };

  it('is that of the file system, also while the engine has not measured it', async () => {
    const folder = new TemporaryFolder('free-space');
    try {
      assert.ok(((await of(folder.path, 0n)) ?? 0n) > 0n);
    } finally {
      await folder.remove();
    }
  });

  it('is the figure of the engine where the directory cannot be asked', async () => {
    assert.equal(await of('/nowhere/at/all', 7n), 7n);
  });
});
